-- Make a zone that of the session, until the transaction ends. AT TIME ZONE would take a name such as CET for an abbreviation
-- of pg_timezone_abbrevs, which has the same offset all year.
--   @zone text
-- Returns the name. An unknown name is an error.
SELECT set_config('TimeZone', @zone::text, true)
