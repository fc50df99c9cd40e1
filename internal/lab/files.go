package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed page chapters
var embedded embed.FS

// policy lets the page load nothing but its own files and talk to nobody but its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// files is what the page is made of, by name.
type files map[string]file

type file struct {
	kind, tag string
	text      []byte
}

// kinds are the content types of the files that are served, and no others are.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

const indexFile = "index.html"

func loadFiles() (files, error) {
	all := files{}
	err := fs.WalkDir(embedded, "page", func(name string, d fs.DirEntry, err error) error {
		kind := kinds[path.Ext(name)]
		if err != nil || d.IsDir() || kind == "" {
			return err
		}
		text, err := embedded.ReadFile(name)
		sum := sha256.Sum256(text)
		all[strings.TrimPrefix(name, "page/")] = file{kind, `"` + hex.EncodeToString(sum[:16]) + `"`, text}
		return err
	})
	if err == nil && all[indexFile].text == nil {
		err = errors.New("the lab's page/" + indexFile + " is missing")
	}
	return all, err
}

func (f files) page(w http.ResponseWriter, r *http.Request) { f.serve(w, r, indexFile) }

func (f files) asset(w http.ResponseWriter, r *http.Request) {
	if name := r.PathValue("file"); name != indexFile {
		f.serve(w, r, name)
		return
	}
	http.NotFound(w, r)
}

func (f files) serve(w http.ResponseWriter, r *http.Request, name string) {
	found, ok := f[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // ask each time whether it is still the same
	h.Set("ETag", found.tag)
	if r.Header.Get("If-None-Match") == found.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", found.kind)
	_, _ = w.Write(found.text) // who does not read it has gone
}
