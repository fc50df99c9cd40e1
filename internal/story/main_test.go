package story_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/internal/testenv"
)

// actorEnv makes the test binary play an actor instead of running tests.
const actorEnv = "STORY_TEST_ACTOR"

func TestMain(m *testing.M) {
	if os.Getenv(actorEnv) != "" {
		if err := story.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.Main(m)
}

// inProcesses plays roles in processes that can be stopped.
func inProcesses(ctx context.Context, r story.Role) (story.Performer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), actorEnv+"=1")
	cmd.Stderr = os.Stderr
	return story.StartProcess(cmd, r)
}

// inGoroutines plays them here.
func inGoroutines(_ context.Context, r story.Role) (story.Performer, error) {
	return story.StartSimulated(r)
}
