package lab_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
