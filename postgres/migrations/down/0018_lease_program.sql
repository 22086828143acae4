-- Programs of this release must be stopped. What is lost describes claims in force, and each new claim says it anew.
ALTER TABLE :"schema".leases
    DROP COLUMN program,
    DROP COLUMN zone_data;
