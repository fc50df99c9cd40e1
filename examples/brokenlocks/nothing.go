package main

import "context"

// nothingAtAll has no lock.
func nothingAtAll() Exhibit {
	return Exhibit{
		Name:   "nothing-at-all",
		Title:  "Nothing at all: A overwrites B",
		Seen:   "every read-modify-write in a handler that was tested with one user; the lost update of the textbooks",
		Second: "Still no lock, but a number each, and a store that checks the numbers",
		Words: []string{
			"Each login reads how many people are online, adds one and writes the sum.",
			"Two logins at once read the same number and write the same sum, so one of them is gone and nobody got an error.",
			"With a fence each login draws a number first, the store takes the write of the newest only, and the other starts over.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			s.Number(ctx, A)
			seen := s.Read(ctx, A)
			s.Pause(A)
			s.Number(ctx, B)
			s.Change(ctx, B, +1)
			s.Resume(A)
			if !s.Write(ctx, A, seen+1) {
				s.Note(A, "starts over")
				s.Number(ctx, A)
				s.Change(ctx, A, +1)
			}
			return nil
		},
	}
}
