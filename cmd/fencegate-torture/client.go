package main

import (
	"context"

	"github.com/fencegate/fencegate/internal/torture/client"
)

// clientName is the command's path: a run starts its own program with it.
const clientName = "fencegate-torture client"

type clientCmd struct{}

// Run implements the command.
func (clientCmd) Run(ctx context.Context, std stdio) error { return client.Main(ctx, std.in, std.out) }
