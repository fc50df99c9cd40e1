//go:build !linux

package fault

func clockLibrary() (string, error) {
	return "", Void("there is no LD_PRELOAD that a server could be started with")
}
