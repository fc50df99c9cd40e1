package lab

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// What each actor can do.
var (
	clientActions   = []Action{Acquire, Reenter, Read, Check, Write, Receipt, Commit, Pair, Add, AddFree, Retry, Renew, Release, Forge, LoseReply, Pause, Resume}
	operatorActions = []Action{Expire, Flush, Evict, ForgetNode, Wait}
)

// values are what can be written: few digits, so that no account overflows.
var values = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// check validates a command and fills in its defaults.
func (s *session) check(cmd *Command) error {
	actions := clientActions
	switch cmd.Actor {
	case "A", "B":
	case "operator":
		actions = operatorActions
	default:
		return &fencing.InvalidError{What: "actor", Got: cmd.Actor, Allowed: "A, B or operator"}
	}
	if !slices.Contains(actions, cmd.Action) {
		return &fencing.InvalidError{What: "action", Got: string(cmd.Action), Allowed: "of " + cmd.Actor + ": " + list(actions)}
	}
	if cmd.Resource == "" {
		cmd.Resource = Coupon
	}
	if cmd.Resource != Coupon && cmd.Resource != Stock {
		return &fencing.InvalidError{What: "resource", Got: cmd.Resource, Allowed: "coupon or stock"}
	}
	var errs []error
	if cmd.Value != "" && !values.MatchString(cmd.Value) {
		errs = append(errs, &fencing.InvalidError{What: "value", Got: cmd.Value, Allowed: "0 to 999999999"})
	}
	if cmd.Number != "" {
		_, err := fencing.ParseNumber(cmd.Number)
		errs = append(errs, err)
	}
	if cmd.Key != "" {
		errs = append(errs, fencing.ValidateKey(cmd.Key))
	}
	if cmd.Action == ForgetNode {
		if cmd.Node == 0 {
			cmd.Node = 1
		}
		if s.nodes == nil {
			return &fencing.InvalidError{What: "action", Got: string(ForgetNode), Allowed: "in a session with lock nodes only"}
		}
	}
	if cmd.Node != 0 && cmd.Action != ForgetNode || cmd.Node < 0 || cmd.Node > 3 {
		errs = append(errs, &fencing.InvalidError{What: "node", Allowed: "1, 2 or 3, of forget-node"})
	}
	return errors.Join(errs...)
}

func list(actions []Action) string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}
