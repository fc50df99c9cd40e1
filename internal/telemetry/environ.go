package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// check looks at the variables that OpenTelemetry would pass over with a word when they are wrong,
// and send elsewhere, or everything, or without the header that opens the door. The errors have
// names of variables only: values may have passwords and keys in them.
func check(getenv func(string) string) error {
	for _, signal := range []string{"", "TRACES_", "METRICS_"} {
		name := "OTEL_EXPORTER_OTLP_" + signal + "ENDPOINT"
		if v := strings.TrimSpace(getenv(name)); v != "" && !isEndpoint(v) {
			return fmt.Errorf("%s: want a URL, http://HOST:PORT or https://HOST:PORT", name)
		}
		name = "OTEL_EXPORTER_OTLP_" + signal + "HEADERS"
		if v := strings.TrimSpace(getenv(name)); v != "" && !areHeaders(v) {
			return fmt.Errorf("%s: want name=value, with commas, special characters in values as %%20 and so on", name)
		}
	}
	for producer := range strings.SplitSeq(getenv("OTEL_METRICS_PRODUCERS"), ",") {
		if producer != "" && producer != "none" && producer != "prometheus" {
			return errors.New("OTEL_METRICS_PRODUCERS: want none, prometheus (the default registry of the Go client), or nothing")
		}
	}
	return checkSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
}

func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Hostname() != ""
	}
	return u.Scheme == "unix" // of grpc
}

func areHeaders(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		notToken := func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
		}
		if _, err := url.PathUnescape(value); err != nil || !found || name == "" || strings.ContainsFunc(name, notToken) {
			return false
		}
	}
	return true
}

func checkSampler(name, arg string) error {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
	default:
		return errors.New("OTEL_TRACES_SAMPLER: want always_on, always_off or traceidratio, or one of them behind parentbased_")
	}
	arg = strings.TrimSpace(arg)
	if ratio, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
		return errors.New("OTEL_TRACES_SAMPLER_ARG: want 0 to 1")
	}
	return nil
}
