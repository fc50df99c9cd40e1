package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Append adds a run to the record at path as one line, and returns when it is on the disk. A line that an
// earlier writer left unfinished stays a line of its own.
func Append(path string, r Run) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644) //nolint:gosec // a record that goes into the repository, for everybody to read
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	torn, err := unfinished(f)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil { // one write: runs that end at once do not mix
		return err
	}
	return f.Sync()
}

// unfinished says whether the last line of a file has no end.
func unfinished(f *os.File) (bool, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, end-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Load reads a record. A line that is there twice, as after a merge of two branches, is one run. A line that was cut off, as by a full disk or a kill, is left out and
// warned of; any other line that is no run is an error that names it. A file that is not there is
// an empty record.
func Load(path string) (runs []Run, warnings []string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	number := 0
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || seen[string(line)] {
			continue
		}
		seen[string(line)] = true
		var r Run
		switch err := json.Unmarshal(line, &r); {
		case err != nil && cutOff(line):
			warnings = append(warnings, fmt.Sprintf("%s: line %d was cut off, and is left out", path, number))
			continue
		case err != nil:
			return nil, warnings, fmt.Errorf("%s: line %d is no run: %w", path, number, err)
		}
		switch r.Verdict {
		case Held, Violated, Void:
		default:
			return nil, warnings, fmt.Errorf("%s: line %d: verdict %q; allowed are %s, %s, %s", path, number, r.Verdict, Held, Violated, Void)
		}
		runs = append(runs, r)
	}
	return runs, warnings, nil
}

// cutOff says whether a line is the beginning of a JSON value.
func cutOff(line []byte) bool {
	var v json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(line)).Decode(&v), io.ErrUnexpectedEOF)
}
