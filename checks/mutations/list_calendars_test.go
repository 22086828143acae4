package mutations_test

// otherCalendars are safeguards of rules by a calendar other than the Gregorian one.
var otherCalendars = []mutation{
	{
		promise: "a year without one has none", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "for year = align(year-1, r.first, r.step);", new: "for year = align(year, r.first, r.step);",
		test: "calendar TestYearlyByIsStrictlyAfter",
	},
	{
		promise: "Its keys are years of that calendar", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "strconv.Itoa(10_000 + year)[1:]", new: "strconv.Itoa(10_000 + chosen.Year)[1:]",
		test: "calendar TestYearlyByHasOneSlotForEachYear",
	},
	{
		promise: "with a unit of their own", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "UnitYear + Unit(\":\"+r.info.Name)", new: "UnitYear",
		test: "calendar TestSlotsHaveTheUnitOfTheirRule",
	},
	{
		promise: "The rule has a policy for each: `backward`, `forward` or `skip`", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "case r.missing.Month == MissingForward:\n\t\treturn before + 1, nil", new: "",
		test: "calendar TestYearlyByHasOneSlotForEachYear",
	},
	{
		promise: "The rule has a policy for each: `backward`, `forward` or `skip`", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "case r.missing.Month == MissingSkip || before < 0:", new: "case before < 0:",
		test: "calendar TestYearlyByHasOneSlotForEachYear",
	},
	{
		promise: "The rule has a policy for each: `backward`, `forward` or `skip`", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "if r.missing.Day == MissingSkip {", new: "if false {",
		test: "contrib/calendars TestBirthdaysInYearsThatLackTheDay",
	},
	{
		promise: "The rule has a policy for each: `backward`, `forward` or `skip`", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "if r.missing.Day == MissingForward {", new: "if false {",
		test: "contrib/calendars TestBirthdaysInYearsThatLackTheDay",
	},
	{
		promise: "The event stores the policies", in: clocks,
		file: "postgres/scan.go",
		old:  "if p.Missing == (calendar.Missing{}) {", new: "if true {",
		test: "postgres TestPostgresRepository/^Fields$/^of_events_of_several_users",
	},
	{
		promise: "The event stores the policies", in: clocks,
		file: "calendar/recurrence.go",
		old:  "next.Policies.Missing = slot.Missing", new: "next.Policies.Missing = Missing{}",
		test: "calendar TestYearlyByTellsItsPolicies",
	},
	{
		promise: "If the rule\nhas none, `Policies.Missing` of the event type applies.", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "y.Missing = y.Missing.or(p.Missing)", new: "",
		test: "calendar TestYearlyByTellsItsPolicies",
	},
	{
		promise: "If both are empty, the custom of the\ncalendar applies.", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "y.Missing.or(r.info.Missing)", new: "y.Missing",
		test: "contrib/calendars TestBirthdaysInYearsThatLackTheDay",
	},
	{
		promise: "A year can lack the month, which is then a leap month", in: clocks,
		file: "calendar/yearly_by.go",
		old:  "at >= 0 && months[at].Days >= r.day.Day {", new: "at >= 0 {",
		test: "calendar TestYearlyByRefusesWhatNoYearHas",
	},
	{
		promise: "`Reason` says what was moved", in: clocks,
		file: "calendar/recurrence.go",
		old:  "reasons = append(reasons, o.DayReason)", new: "",
		test: "calendar TestYearlyByHasAReason",
	},
	{
		promise: "a death in Adar of a common year has its anniversary in Adar I of a leap year", in: clocks,
		file: "calendar/yahrzeit.go",
		old:  "case y.Of.Month == adar && !leap:", new: "case false && leap:",
		test: "contrib/calendars TestYahrzeits$",
	},
	{
		promise: "30 Heshvan and 30 Kislev depend on the first year after the death", in: clocks,
		file: "calendar/yahrzeit.go",
		old:  "y.System.Months(y.Of.Year + 1)", new: "y.System.Months(y.Of.Year)",
		test: "contrib/calendars TestYahrzeits$",
	},
	{
		promise: "A day outside of the years is an error", in: "contrib/calendars/README.md",
		file: "contrib/calendars/system.go",
		old:  "if day < s.begin || day >= s.end {", new: "if day < s.begin {",
		test: "contrib/calendars TestMonthsPartitionTheDays",
	},
	{
		promise: "A day outside of the years is an error", in: "contrib/calendars/README.md",
		file: "contrib/calendars/system.go",
		old:  "if number < s.info.First || number > s.info.Last {", new: "if number < s.info.First {",
		test: "contrib/calendars TestMonthsPartitionTheDays",
	},
	{
		promise: "Both agree on all days but these.", in: "contrib/calendars/README.md",
		file: "contrib/calendars/hebrew.go",
		old:  "return day + 2", new: "return day + 1",
		test: "contrib/calendars TestEachDayAgreesWithICU",
	},
	{
		promise: "Both agree on all days but these.", in: "contrib/calendars/README.md",
		file: "contrib/calendars/solar.go",
		old:  "(8*number+21)/33", new: "(8*number+20)/33",
		test: "contrib/calendars TestEachDayAgreesWithICU",
	},
	{
		promise: "Both agree on all days but these.", in: "contrib/calendars/README.md",
		file: "contrib/calendars/umm_al_qura_table.go",
		old:  "{739783, 0, 0x0ada}", new: "{739783, 0, 0x0ad9}",
		test: "contrib/calendars TestEachDayAgreesWithICU",
	},
	{
		promise: "All days here are those of its tables for", in: "contrib/calendars/README.md",
		file: "contrib/calendars/chinese_table.go",
		old:  "{750974, 0, 0x0556}", new: "{750974, 0, 0x04d6}",
		test: "contrib/calendars TestMonthsAreThoseOfTheAuthorities",
	},
	{
		promise: "its date in that calendar before SKIP moves it", in: clocks,
		file: "calendar/rscale.go",
		old:  "= named.String(), UnitDay", new: "= is.String(), UnitDay",
		test: "calendar TestRulesByAnotherCalendar$",
	},
	{
		promise: "with leap months such as `6L`", in: clocks,
		file: "calendar/rscale.go",
		old:  "list = append(list, SystemDate{Year: year, Month: n, Leap: true})", new: "_ = n",
		test: "calendar TestRulesByAnotherCalendarHaveEachOfTheirDays",
	},
	{
		promise: "An unknown RSCALE is an error", in: clocks,
		file: "internal/rrule/parse.go",
		old:  "p.oneOf(name, value, append([]string{gregorian}, p.scales...))", new: "",
		test: "calendar TestRulesByAnotherCalendarAreRefused",
	},
}
