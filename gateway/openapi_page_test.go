package gateway_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestHTTPPage runs the walk through the API of docs/http.md with curl, and compares what comes
// with what the page shows.
func TestHTTPPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{})
	var script strings.Builder
	var want []string
	for _, m := range regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if m[1] == "sh" {
			fmt.Fprintf(&script, "%s\necho; echo ====\n", strings.ReplaceAll(m[2], "http://127.0.0.1:8080", r.url))
		} else {
			want = append(want, m[2])
		}
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := regexp.MustCompile(`[A-Z2-7]{26}`).ReplaceAllString(string(out), "<grant id>")
	text = regexp.MustCompile(`"(expires_in|waited)":"[^"]+"`).ReplaceAllString(text, `"$1":"<time>"`)
	got := strings.Split(strings.TrimSuffix(text, "====\n"), "====\n")
	if len(got) != len(want) || len(got) < 5 {
		t.Fatalf("the page has %d blocks that are run and %d answers", len(got), len(want))
	}
	for i := range got {
		if strings.TrimSpace(got[i]) != strings.TrimSpace(want[i]) {
			t.Errorf("block %d: got\n%s\nwant\n%s", i+1, got[i], want[i])
		}
	}
}
