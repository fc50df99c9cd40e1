package lab

// Chapter is a guided tour with one idea. Chapters are files in chapters/, one JSON object each,
// NN-slug.json, in the order of NN.
type Chapter struct {
	Slug  string `json:"slug"`
	Title string `json:"title"`
	Lead  string `json:"lead"` // a paragraph before the first step
	Parts []Part `json:"parts"`
	// Takeaway is what to remember, in one or two sentences.
	Takeaway string `json:"takeaway"`
	Sandbox  bool   `json:"sandbox,omitempty"` // no parts: all controls, to play freely
}

// Part is one session's worth of steps.
type Part struct {
	Title string `json:"title"`
	Mode  Mode   `json:"mode"`
	Lock  string `json:"lock,omitempty"` // as in NewSession
	TTL   string `json:"ttl,omitempty"`
	Steps []Step `json:"steps"`
	After string `json:"after,omitempty"` // what was seen, once the part has ended
}

// Step is one command, and what the reader is told and asked about it.
type Step struct {
	Say     string    `json:"say"` // before it: one or two plain sentences
	Command Command   `json:"command"`
	Predict *Question `json:"predict,omitempty"` // asked before a decisive step
	Expect  Expect    `json:"expect"`
}

// Question is a prediction with two to four answers.
type Question struct {
	Ask     string   `json:"ask"`
	Answers []string `json:"answers"`
	Right   int      `json:"right"` // its index
	Why     string   `json:"why"`   // told after the step, whatever was answered
}

// Expect is what must come of a step on every lock and store; the tests compare. Empty is not compared.
// Of a resume after which something was done that had been parked, the last of that is compared.
type Expect struct {
	Status  string `json:"status,omitempty"`  // Done's; default done
	Outcome string `json:"outcome,omitempty"` // the event's
	Reason  string `json:"reason,omitempty"`
	Damage  bool   `json:"damage,omitempty"` // the event tells of damage; else it must not
	Left    string `json:"left,omitempty"`   // Account.Remaining after it
}
