package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// look is how often the file is looked at, at most.
const look = time.Second

// Options are those of [Open].
type Options struct {
	// OnTrouble is told once of each trouble: the file cannot be read any more, or has become
	// unreadable text, and the keys that were read last stay; or others may read it. It is
	// called from within Open and Find. Default: nobody.
	OnTrouble func(error)
}

// File is a [Ring] whose keys are in a file. It looks at the file when it is asked for a key, once
// a second at most, and reads it again if it was changed or replaced. It has no goroutine and
// needs no closing.
type File struct {
	path    string
	o       Options
	started time.Time
	keys    atomic.Pointer[map[string]Entry] // by ID
	looked  atomic.Int64                     // when, counted from started

	mu      sync.Mutex  // guards the rest; held while reading
	seen    fs.FileInfo // of what was read last; nil after an error
	trouble string      // what OnTrouble was told last
}

var _ Ring = (*File)(nil)

// Open reads a file of keys, which must be whole, and nobody's to write but its owner's: else it is
// an error that names the key's ID and what is allowed. The file may have no keys.
func Open(path string, o *Options) (*File, error) {
	f := &File{path: path, started: time.Now()}
	if o != nil {
		f.o = *o
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Find implements [Ring].
func (f *File) Find(text string) (Key, bool) {
	f.refresh()
	id, secret, ok := parse(text)
	if !ok {
		return Key{}, false // of another form: nothing is learnt from that
	}
	e, known := (*f.keys.Load())[id] // an unknown ID is compared with zeros
	sum := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(sum[:], e.hash[:]) == 1
	if !known || !same || e.Expired(time.Now()) {
		return Key{}, false
	}
	return e.Key, true
}

// refresh reads the file again if it is time to look, and there is something new. Whoever comes
// while another looks goes on with the keys that there are.
func (f *File) refresh() {
	now := time.Since(f.started)
	if now-time.Duration(f.looked.Load()) < look || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	f.looked.Store(int64(now))
	info, err := os.Stat(f.path)
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) {
		return
	}
	if err == nil {
		err = f.read()
	}
	if err != nil {
		f.tell(fmt.Errorf("the keys that were read before stay in force: %w", err))
	}
}

// read takes the file's keys. f.mu is held.
func (f *File) read() error {
	file, info, err := openFile(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	f.seen = info
	list, err := readFrom(file, info)
	if err != nil {
		return err
	}
	keys := make(map[string]Entry, len(list))
	for _, e := range list {
		keys[e.ID] = e
	}
	f.keys.Store(&keys)
	f.trouble = ""
	if shared(info, 0o004) {
		f.tell(fmt.Errorf("%s: others may read it: chmod o-r", f.path))
	}
	return nil
}

func (f *File) tell(err error) {
	if f.trouble == err.Error() {
		return
	}
	f.trouble = err.Error()
	if f.o.OnTrouble != nil {
		f.o.OnTrouble(err)
	}
}

// openFile opens a regular file, and looks at it before its text is read: so a later change is seen
// at the next look. Anything else is not opened: a pipe would wait for who writes to it.
func openFile(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: it is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// readFrom reads and checks a whole file.
func readFrom(file *os.File, info fs.FileInfo) ([]Entry, error) {
	if shared(info, 0o022) {
		return nil, fmt.Errorf("%s: others may write to it, and so make keys: chmod go-w", file.Name())
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New("it is larger than 32 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	list, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return list, nil
}

// shared reports whether others than the owner have one of the rights. Windows has no such bits.
func shared(info fs.FileInfo, rights fs.FileMode) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&rights != 0
}
