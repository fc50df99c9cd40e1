package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
)

// environment is the command's: ours, the token, and whom this process talks to, whether it knows
// that from flags or from variables. What says otherwise, and where other tokens are, is left out.
func (t *target) environment(token fencing.Token) []string {
	set := []string{envToken + "=" + token.Text(), envResource + "=" + token.Resource, envNumber + "=" + strconv.FormatInt(token.Number, 10)}
	drop := []string{"FENCEGATE_TOKEN_FILE", "FENCEGATE_URL", envToken, envResource, envNumber}
	for _, v := range t.env {
		name, _, _ := strings.Cut(v, "=")
		drop = append(drop, name)
	}
	if len(t.env) > 0 && t.gateway != nil { // of two keys neither would be taken
		drop = append(drop, "FENCEGATE_API_KEY", "FENCEGATE_API_KEY_FILE")
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(drop, name)
	})
	return append(append(env, set...), t.env...)
}

// gatewayEnv are the variables that lead to the same gateway with the same key. A file that can
// be read once, as a pipe can, is handed on as what it had.
func (f targetFlags) gatewayEnv(key string) []string {
	env := []string{"FENCEGATE_URL=" + kong.JoinEscaped(f.URL, ',')}
	if f.InsecureKey {
		env = append(env, "FENCEGATE_INSECURE_KEY=true")
	}
	if f.APIKeyFile != "" {
		info, err := os.Stat(f.APIKeyFile)
		path, pathErr := filepath.Abs(f.APIKeyFile)
		if err == nil && pathErr == nil && info.Mode().IsRegular() {
			return append(env, "FENCEGATE_API_KEY_FILE="+path)
		}
	}
	if key != "" {
		env = append(env, "FENCEGATE_API_KEY="+key)
	}
	return env
}

// serversEnv are the variables that lead to the same lock and store.
func (f targetFlags) serversEnv() []string {
	env := []string{"FENCEGATE_LOCK=" + f.Lock, "FENCEGATE_STORE=" + f.Store, "FENCEGATE_MODE=" + f.Mode}
	for _, v := range []struct{ name, value string }{
		{"FENCEGATE_REDIS_URL", kong.JoinEscaped(f.RedisURL, ',')},
		{"FENCEGATE_POSTGRES_URL", f.PostgresURL},
		{"FENCEGATE_REDLOCK_URLS", kong.JoinEscaped(f.RedlockURLs, ',')},
	} {
		if v.value != "" {
			env = append(env, v.name+"="+v.value)
		}
	}
	return append(env,
		"FENCEGATE_REDLOCK_MAX_TTL="+f.RedlockMaxTTL.String(), "FENCEGATE_REDLOCK_FEW_NODES="+strconv.FormatBool(f.RedlockFewNodes),
		"FENCEGATE_REDLOCK_NODE_TIMEOUT="+f.RedlockNodeTimeout.String())
}
