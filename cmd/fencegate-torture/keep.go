package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// canReplace says whether writePage can write a file. It leaves nothing behind.
func canReplace(flag, path string) error {
	if err := hasDir(flag, path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s %s: it is no file; want one, which may be new", flag, path)
	}
	if err := canMake(filepath.Dir(path), filepath.Base(path)); err != nil {
		return usagef("%s %s: it cannot be written: %w", flag, path, err)
	}
	return nil
}

// canMake says whether files whose names begin so can be made in a directory.
func canMake(dir, begin string) error {
	f, err := os.CreateTemp(dir, begin+".*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// canAppend says whether runs can be added to a record; none: yes. A new one is there afterwards, empty: another run
// may have added to it by the time it could be removed.
func canAppend(flag, path string) error {
	if path == "" {
		return nil
	}
	if err := hasDir(flag, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644) //nolint:gosec // a record that goes into the repository, for everybody to read
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return usagef("%s %s: it cannot be written: %w", flag, path, err)
	}
	return nil
}

func hasDir(flag, path string) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("%s %s: there is no directory %s", flag, path, filepath.Dir(path))
	}
	return nil
}

// writePage writes a run's page to a file, whole or not at all.
func writePage(path string, out *torture.Outcome) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // there no more after the rename
	err = report.HTML(f, out.Run, out.History, out.Result)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
