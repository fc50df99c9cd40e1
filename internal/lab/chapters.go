package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Chapters returns the guided tours, in their order. The error names the file that is wrong, and what.
func Chapters() ([]Chapter, error) {
	return loadChapters(embedded, "chapters")
}

// loadChapters reads the chapters in a folder.
func loadChapters(from fs.FS, folder string) ([]Chapter, error) {
	names, err := fs.Glob(from, folder+"/*.json") // sorted
	if err != nil {
		return nil, err
	}
	chapters := []Chapter{}
	slugs := map[string]bool{}
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		var c Chapter
		if err := decodeChapter(text, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := c.validate(strings.TrimPrefix(name, folder+"/")); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if slugs[c.Slug] {
			return nil, fmt.Errorf("%s: there is another chapter with the slug %s", name, c.Slug)
		}
		slugs[c.Slug] = true
		chapters = append(chapters, c)
	}
	return chapters, nil
}

func decodeChapter(text []byte, c *Chapter) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the chapter")
	}
	return nil
}

var fileName = regexp.MustCompile(`^[0-9]{2}-([a-z0-9]+(?:-[a-z0-9]+)*)\.json$`)

func (c *Chapter) validate(name string) error {
	m := fileName.FindStringSubmatch(name)
	switch {
	case m == nil:
		return errors.New("the file's name must be like 01-paused-client.json")
	case c.Slug != m[1]:
		return fmt.Errorf("the slug is %q, want %q, as in the file's name", c.Slug, m[1])
	case c.Title == "" || c.Lead == "" || c.Takeaway == "":
		return errors.New("title, lead and takeaway must say something")
	case c.Sandbox == (len(c.Parts) > 0):
		return errors.New("a chapter has parts, or is the sandbox")
	}
	for i, p := range c.Parts {
		if err := p.validate(); err != nil {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	return nil
}

func (p *Part) validate() error {
	if p.Title == "" || len(p.Steps) == 0 {
		return errors.New("a part has a title and steps")
	}
	if _, err := (NewSession{Mode: p.Mode, TTL: p.TTL, Lock: p.Lock}).check(); err != nil {
		return err
	}
	s := &session{mode: p.Mode} // as far as check looks at it
	if p.Lock == nodesLock {
		s.nodes = newNaive()
	}
	for i, step := range p.Steps {
		if err := step.validate(s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (st *Step) validate(s *session) error {
	cmd := st.Command
	if err := s.check(&cmd); err != nil {
		return err
	}
	if st.Say == "" {
		return errors.New("say must say something")
	}
	if want := st.Expect.Status; want != "" && !slices.Contains([]string{statusDone, statusWaiting, statusParked}, want) {
		return fmt.Errorf("expect.status is %q, want done, waiting or parked", want)
	}
	q := st.Predict
	switch {
	case q == nil:
		return nil
	case q.Ask == "" || q.Why == "":
		return errors.New("a question asks something, and says why")
	case len(q.Answers) < 2 || len(q.Answers) > 4:
		return fmt.Errorf("a question has %d answers, want 2 to 4", len(q.Answers))
	case q.Right < 0 || q.Right >= len(q.Answers):
		return fmt.Errorf("the right answer is %d of %d", q.Right, len(q.Answers))
	}
	return nil
}
