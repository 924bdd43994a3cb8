import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/core/clock.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { RunOptions } from '../../src/engine/plan-run.ts';
import type { Row } from '../support/expected-rows.ts';
import { sameRow } from '../support/same-row.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { syncOnce } from '../support/sync-once.ts';
import type { SoakConnector, SoakWorld } from './soak-world.ts';

const laterMs = 25 * 60 * 60 * 1000;
const fullRead: Partial<RunOptions> = { isFull: true, allowDeletes: true };

/**
 * Runs a last scheduled sync of every connector; then the sink must match the account, because a full read would hide a
 * loss by repairing it. Then reads each connector in full, into its sink and into a new one, and compares the rows of
 * its sink with the new sink and with the account. The clock is a day ahead, so that volatile fields are stored again.
 */
export async function compareSinks(world: SoakWorld) {
  let rows = 0;
  const found = {
    missing: [] as string[],
    different: [] as string[],
    /** Live rows in the sink that the account does not have. */
    superfluous: [] as string[],
    /** Tables with a duplicate key or a torn line. */
    doubled: [] as string[],
  };
  const note: Note = (kind, example) => void found[kind].push(example);
  for (const connector of world.connectors) {
    const fresh = mkdtempSync(path.join(world.folder, 'fresh-'));
    try {
      await syncAgain(world, connector, connector.sink.folder, {});
      compareWithAccount(connector, note);
      await syncAgain(world, connector, connector.sink.folder, fullRead);
      await syncAgain(world, connector, fresh, fullRead);
      rows += compareWithFresh(connector, fresh, note);
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  }
  return { rows, ...found };
}

async function syncAgain(
  world: SoakWorld,
  connector: SoakConnector,
  folder: string,
  run: Partial<RunOptions>,
): Promise<void> {
  const report = await syncOnce({
    baseUrl: world.api.url,
    identityUrl: world.api.url,
    connector: connector.connector,
    connectorId: connector.connectorId,
    definition: connector.definition,
    sink: sampleSinks[connector.sink.type].options(folder),
    clock: { ...systemClock, now: () => Date.now() + laterMs },
    run,
  });
  if (report.outcome !== 'ok') {
    const why = report.error?.message ?? JSON.stringify(report.failures[0]);
    throw new Error(`The last sync of ${connector.connector} ended ${report.outcome}: ${why}`);
  }
}

type Note = (kind: 'missing' | 'different' | 'superfluous' | 'doubled', example: string) => void;

function compareWithAccount(connector: SoakConnector, note: Note): void {
  const truth = connector.truth();
  for (const table of tablesOf(connector)) {
    const stored = readTable(connector, connector.sink.folder, table, note);
    const name = `${connector.connector} ${table.entity} (account, before the full read)`;
    compareRows({ name, expected: truth.get(table.entity) ?? new Map(), stored, note });
  }
}

function compareWithFresh(connector: SoakConnector, freshFolder: string, note: Note): number {
  const truth = connector.truth();
  let rows = 0;
  for (const table of tablesOf(connector)) {
    const stored = readTable(connector, connector.sink.folder, table, note);
    const fresh = readTable(connector, freshFolder, table, note);
    const account: ReadonlyMap<string, Row> = truth.get(table.entity) ?? new Map();
    const name = `${connector.connector} ${table.entity}`;
    compareRows({ name: `${name} (account)`, expected: account, stored, note });
    compareRows({ name: `${name} (fresh sync)`, expected: fresh, stored, note });
    rows += stored.size;
    for (const [key, row] of stored) {
      const isKnown = account.has(key) && fresh.has(key);
      if (!isKnown && !connector.mayStay(table.entity, key, row)) note('superfluous', `${name} ${key}`);
    }
  }
  return rows;
}

function tablesOf({ definition }: SoakConnector): readonly EntityTable[] {
  return [...definition.entities.values()].flatMap(({ table, explodedTable }) =>
    explodedTable === null ? [table] : [table, explodedTable],
  );
}

/** Readers throw on torn lines and duplicate rows. */
function readTable(
  { connector, sink }: SoakConnector,
  folder: string,
  table: EntityTable,
  note: Note,
): ReadonlyMap<string, Row> {
  try {
    return sampleSinks[sink.type].rows(folder, connector, table);
  } catch (error) {
    note(
      'doubled',
      `${connector} ${table.entity}: ${error instanceof Error ? error.message : String(error)}`,
    );
    return new Map();
  }
}

function compareRows(options: {
  readonly name: string;
  readonly expected: ReadonlyMap<string, Row>;
  readonly stored: ReadonlyMap<string, Row>;
  readonly note: Note;
}): void {
  for (const [key, row] of options.expected) {
    const found = options.stored.get(key);
    if (found === undefined) options.note('missing', `${options.name} ${key}`);
    else if (!sameRow(found, row)) options.note('different', `${options.name} ${key}`);
  }
}
