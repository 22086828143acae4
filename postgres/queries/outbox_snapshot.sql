-- The snapshot of everything that is committed now. This transaction counts as open, because it may still write to the outbox. A
-- snapshot ends after the last id that is over, so it does not name younger transactions. Those of them that got their ids before
-- this transaction also count as open; at most a thousand of them are named.
--   @name text (of a consumer)
-- Returns the snapshot; whether all ids from its end on are younger than this transaction's; and whether the consumer's position
-- is of another server, or from the future.
WITH now AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS past,
        pg_current_xact_id()::text::bigint AS own
), bounds AS (
    SELECT now.*, CASE WHEN now.own BETWEEN now.past AND now.past + 1000 THEN now.own + 1 ELSE now.past END AS ends
    FROM now
)
SELECT
    concat_ws(':', pg_snapshot_xmin(b.snapshot), b.ends, coalesce((
        SELECT string_agg(open.xid::text, ',' ORDER BY open.xid)
        FROM (
            SELECT x::text::bigint FROM pg_snapshot_xip(b.snapshot) AS x
            UNION
            SELECT generate_series(b.past, b.ends - 1)
            UNION
            SELECT b.own WHERE b.own < b.ends
        ) AS open (xid)
    ), '')),
    b.own < b.ends,
    EXISTS (
        SELECT FROM :"schema".outbox_consumers c
        WHERE c.name = @name AND (:elsewhere OR pg_snapshot_xmax(c.reading)::text::bigint > b.ends)
    )
FROM bounds b
