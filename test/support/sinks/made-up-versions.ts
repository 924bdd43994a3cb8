/**
 * Migrations of a release that does not exist, from version 1 to 2 and 3: a table, rows made of stored ones, a column.
 * `between` is a statement that runs between any two others.
 */
export function madeUpMigrations(between: (step: number) => string): readonly string[] {
  return [
    `${between(0)};
     CREATE TABLE _sync_made_up (connector TEXT PRIMARY KEY, runs INTEGER NOT NULL);
     ${between(1)};
     INSERT INTO _sync_made_up SELECT connector, count(*) FROM _sync_runs GROUP BY connector;
     ${between(2)};`,
    `ALTER TABLE _sync_runs ADD COLUMN made_up TEXT NOT NULL DEFAULT 'before';
     ${between(3)};
     UPDATE _sync_made_up SET runs = runs + 1;
     ${between(4)};`,
  ];
}

/** The last step that `between` is called with. */
export const lastStep = 4;
