package client_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/gateway/client"
)

// untilEnd is the body of a stream on which nothing comes.
type untilEnd struct{ context.Context }

func (b untilEnd) Read([]byte) (int, error) {
	<-b.Done()
	return 0, b.Err()
}

// TestLateStreamIsNoReturn: a stream that was asked for before its replica began to drain does not bring the clients back.
func TestLateStreamIsNoReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		network := fakes{
			"a": func(r *http.Request) reply {
				if r.URL.Path == "/v1/events" {
					time.Sleep(time.Second)
					return reply{status: http.StatusOK, header: map[string]string{"Content-Type": "text/event-stream"}, body: untilEnd{r.Context()}}
				}
				asked += "a"
				w := written(r)
				w.closes = true
				return w
			},
			"b": func(r *http.Request) reply { asked += "b"; return written(r) },
		}
		c := ofTwo(t, network)
		put := func() {
			if _, err := c.Store().Put(t.Context(), token, "a", nil); err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := watch(ctx, c, client.EventsRequest{})
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		put()
		time.Sleep(time.Second)
		synctest.Wait() // the stream has begun
		put()
		if asked != "ab" {
			t.Errorf("asked %s, want ab", asked)
		}
		cancel()
		if err := <-w.err; err != nil {
			t.Error(err)
		}
	})
}
