package openapitest

import (
	"bytes"
	"io"
	"net/http"
)

// reader keeps what was read of a request's body.
type reader struct {
	io.ReadCloser

	got []byte
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.got = append(r.got, p[:n]...)
	return n, err
}

// writer keeps what was written of a reply, of a stream nothing but the head.
type writer struct {
	http.ResponseWriter

	status int
	sent   http.Header // as they were when the head was written
	body   []byte
	stream bool
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.Header().Clone()
		w.stream = w.sent.Get("Content-Type") == "text/event-stream"
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.stream {
		w.body = append(w.body, p...)
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher], which some handlers look for.
func (w *writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func readCloser(data []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(data)) }
