-- Store a release that waits for an operator, or the answer, adding or replacing that of the zone or the calendar.
--   @name text · @calendar boolean · @release text · @changes bigint · @largest bigint (microseconds) · @first_local timestamp ·
--   @first_utc timestamptz · @since timestamptz · @answered_at timestamptz (NULL: it waits) · @accepted boolean · @reason text
-- The author of an answer is the principal of the transaction.
INSERT INTO :"schema".quarantine AS q (name, calendar, release, changes, largest, first_local, first_utc, since, answered_at, accepted,
    author, reason)
SELECT @name::text, @calendar::boolean, @release::text, @changes::bigint, @largest::bigint, @first_local::timestamp, @first_utc::timestamptz,
    @since::timestamptz, @answered_at::timestamptz, @accepted::boolean,
    CASE WHEN @answered_at::timestamptz IS NOT NULL
        THEN left(coalesce(nullif(current_setting('almanac.principal', true), ''), session_user::text), 200) END,
    nullif(@reason::text, '')
ON CONFLICT (calendar, name) DO UPDATE
SET release = excluded.release, changes = excluded.changes, largest = excluded.largest, first_local = excluded.first_local,
    first_utc = excluded.first_utc, since = excluded.since, answered_at = excluded.answered_at, accepted = excluded.accepted,
    author = excluded.author, reason = excluded.reason
