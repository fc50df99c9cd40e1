package apikey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// ErrNoKey says that a file has no key of an ID.
var ErrNoKey = errors.New("there is no such key")

// List returns the keys of a file in the order in which they were added.
func List(path string) ([]Entry, error) {
	file, info, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readFrom(file, info)
}

// Add makes a key as e describes it, with an ID and a secret of its own, and adds it to the file,
// which it makes if there is none. The text is what its bearer needs; it is nowhere else, and
// cannot be had again. A process that has the file open knows the key a second later.
func Add(ctx context.Context, path string, e Entry) (added Entry, text string, err error) {
	if err := e.Validate(); err != nil {
		return e, "", err
	}
	err = update(ctx, path, func(list []Entry) ([]Entry, error) {
		if len(list) >= MaxKeys {
			return nil, fmt.Errorf("%s: it has %d keys, no more fit", path, len(list))
		}
		e, text = issued(list, e)
		return append(list, e), nil
	})
	if err != nil {
		return e, "", err
	}
	return e, text, nil
}

// issued is e with an ID that list does not have, and the key's text.
func issued(list []Entry, e Entry) (Entry, string) {
	e.Created = time.Now().UTC().Truncate(time.Second)
	for {
		text := e.issue()
		if !slices.ContainsFunc(list, func(o Entry) bool { return o.ID == e.ID }) {
			return e, text
		}
	}
}

// Rotate adds a key with the rights, the label and the lifetime of another one, which expires
// after grace, if it would not before. The error is [ErrNoKey] where the file has no such key.
func Rotate(ctx context.Context, path, id string, grace time.Duration) (added Entry, text string, err error) {
	err = update(ctx, path, func(list []Entry) ([]Entry, error) {
		i := slices.IndexFunc(list, func(e Entry) bool { return e.ID == id })
		if i < 0 {
			return nil, ErrNoKey
		}
		old := &list[i]
		added, text = issued(list, *old)
		if !old.Expires.IsZero() {
			added.Expires = added.Created.Add(old.Expires.Sub(old.Created))
		}
		if end := added.Created.Add(grace); old.Expires.IsZero() || end.Before(old.Expires) {
			old.Expires = end
		}
		return append(list, added), nil
	})
	if err != nil {
		return Entry{}, "", err
	}
	return added, text, nil
}

// Remove takes a key out of the file; it is refused from a second later on. The error is [ErrNoKey]
// where the file has no such key.
func Remove(ctx context.Context, path, id string) error {
	return update(ctx, path, func(list []Entry) ([]Entry, error) {
		left := slices.DeleteFunc(list, func(e Entry) bool { return e.ID == id })
		if len(left) == len(list) {
			return nil, ErrNoKey
		}
		return left, nil
	})
}

// update replaces a file by one with the keys that change returns. Two that update it at once come
// one after the other, by a lock on a file beside it; whoever reads it sees the old one or the new
// one, whole, also after a crash.
func update(ctx context.Context, path string, change func([]Entry) ([]Entry, error)) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // else the link would be replaced
	}
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("%s.lock: %w", path, err)
	}
	defer func() { err = errors.Join(err, l.Unlock()) }() // the lock's file stays: to remove it would let two in
	list, err := List(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	return replace(path, encode(list))
}

// replace writes a file beside path and puts it in its place. It keeps the owner, and of the mode
// what does not let others write; a new file is its owner's alone.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // of mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	defer f.Close()
	if info, err := os.Stat(path); err == nil {
		if err := keepOwner(f, info); err != nil {
			return fmt.Errorf("%s: its owner cannot be kept: %w", path, err)
		}
		if err := f.Chmod(info.Mode().Perm() &^ 0o022); err != nil {
			return err
		}
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
