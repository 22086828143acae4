package mutations_test

const importing = "docs/imports.md"

// imports are safeguards of imports, and of changes of many users.
var imports = []mutation{
	{
		promise: "Several rows of one user are applied in their order.", in: importing,
		file: "httpapi/admin_import_page.go",
		old:  "names = append(names, l.holder.ID.String())", new: "names = append(names, \"\"+l.names()[0])",
		test: "httpapi TestLinesOfOneUserUnderOtherNamesAreDoneInTheirOrder",
	},
	{
		promise: "line before it was processed and is counted once.", in: importing,
		file: "httpapi/admin_import.go",
		old:  "\t\tcase notProcessed:\n\t\t\treturn\n", new: "\t\tcase notProcessed:\n\t\t\tcontinue\n",
		test: "httpapi TestAnImportCountsNoLineAfterTheNextOne",
	},
	{
		promise: "Then the row is refused, and the others are", in: importing,
		file: "httpapi/admin_import_page.go",
		old:  "errors.Is(failed, almanac.ErrNotFound), i.late(ctx, failed):", new: "errors.Is(failed, almanac.ErrNotFound):",
		test: "httpapi TestAnImportPassesOverAUserWhoIsLocked",
	},
	{
		promise: "A dry run (`dryRun=true`) stores nothing and locks nothing.", in: importing,
		file: "httpapi/admin_import_page.go",
		old:  "\tif i.answer.DryRun {\n\t\treturn i.foresee(fresh, changed)\n\t}\n", new: "",
		test: "httpapi TestADryRunOfAnImportCountsAndStoresNothing",
	},
	{
		promise: "a dry run by the admin API does.", in: importing,
		file: "httpapi/admin_import_page.go",
		old:  "l.holder != nil && l.holder != l.user && l.holder.ID != l.id", new: "false",
		test: "httpapi TestADryRunOfAnImportCountsAndStoresNothing",
	},
	{
		promise: "The same file again changes nothing", in: importing,
		file: "httpapi/admin_import_page.go",
		old:  "l.needed.Timezone = nil // the zone is not declared already", new: "",
		test: "httpapi TestAnImportHoldsTheRulesOfTheHost",
	},
	{
		promise: "The command waits a second for\n  a lock", in: importing,
		file: "cmd/command/user_import.go",
		old:  ", postgres.WithLockTimeout(lockPatience))", new: ", postgres.WithLockTimeout(10*time.Minute))",
		test: "cmd/command TestAnUpdateRefusesALockedUserAndGoesOn",
	},
	{
		promise: "An empty cell or a missing column states nothing, and what is stored stays.", in: importing,
		file: "cmd/command/user_import_run.go",
		old:  "if i.update && !read.states(p.Field) {", new: "if false {",
		test: "cmd/command TestAnImportUpdatesUsersAsFarAsTheyDiffer",
	},
	{
		promise: "at the end of their page of 1,000 rows", in: importing,
		file: "cmd/command/user_import.go",
		old:  "i.stretch = 1000", new: "i.stretch = 50_000",
		test: "cmd/command TestAnImportOfChangesGivesUpBeforeTheEndOfTheFile",
	},
	{
		promise: "a second row of a new user counts as created, too.", in: importing,
		file: "cmd/command/user_import_run.go",
		old:  "ops.PutUsersOptions{DryRun: s.dry}", new: "ops.PutUsersOptions{}",
		test: "cmd/command TestAnImportUpdatesUsersAsFarAsTheyDiffer",
	},
	{
		promise: "so it goes through `UpdateUsers`", in: "docs/adr/0079-bulk.md",
		file: "scheduler_put_users.go",
		old:  "c := changes[i].by(ctx)", new: "c := changes[0].by(ctx)",
		test: "./ops TestUpdateUsersDoesWhatSingleCallsDo",
	},
	{
		promise: "The users of which something is not locked are left to", in: "docs/adr/0079-bulk.md",
		file: "postgres/queries/lock_roster_events.sql",
		old:  "SELECT q.event_id IS NOT NULL,", new: "SELECT true,",
		test: "./postgres TestEditUsersWaitsForALockedUserLast",
	},
}
