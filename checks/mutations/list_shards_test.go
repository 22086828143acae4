package mutations_test

// shardings are safeguards of schemas that move.
var shardings = []mutation{
	{
		promise: "without rows. It refuses writes", in: "docs/moving.md",
		file: "shards/move_steps.go",
		old:  `statements = append(statements, "CREATE TRIGGER asleep`, new: `_ = append(statements, "CREATE TRIGGER asleep`,
		test: "shards TestAMoveIsKilledAtEachStep",
	},
	{
		promise: "when no transaction writes, the schema of the source is renamed", in: "docs/moving.md",
		file: "shards/move_steps.go",
		old:  `" IN EXCLUSIVE MODE"`, new: `" IN ACCESS SHARE MODE"`,
		test: "shards TestAnOpenTransactionPutsTheSwitchOff",
	},
	{
		promise: "Consumers of [the outbox](operations.md#the-outbox) go on where they were", in: "docs/moving.md",
		file: "shards/move_outbox.go",
		old:  "WHEN n.read > 0 THEN $2::bigint + n.read ELSE 0 END", new: "WHEN n.read > 0 THEN $2::bigint + n.read + 1 ELSE 0 END",
		test: "shards TestTheOutboxGoesOnAfterAMove",
	},
	{
		promise: "the new server gets the last changes, sequences and positions", in: "docs/moving.md",
		file: "shards/move_steps.go",
		old:  "return behind <= 0, err", new: "return behind <= 1<<30, err",
		test: "shards TestTheTargetGetsTheLastChangeBeforeItWakes",
	},
	{
		promise: "`postgres.ErrMoved` on the old server", in: "docs/moving.md",
		file: "postgres/migrate.go",
		old:  "err != nil || !is {", new: "err != nil || true {",
		test: "postgres TestMigrateRefusesASchemaThatHasMoved",
	},
	{
		promise: "Their outcomes are kept until the new server takes writes", in: "docs/moving.md",
		file: "postgres/errors.go",
		old:  "return !absent(err)\n", new: "return true\n",
		test: "postgres TestOutcomesAreKeptWhileTheSchemaHasAnotherName",
	},
}
