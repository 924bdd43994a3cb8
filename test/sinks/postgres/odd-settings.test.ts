import { describe, expect, it, onTestFinished } from 'vitest';
import { openHistory, openExistingRecords, openSink } from '../../../src/sinks/registry.ts';
import { openPostgresTarget } from '../../../src/publish/postgres/postgres-target.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { describeSink } from '../../contracts/sink-contract.ts';
import {
  Bench,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  record,
  type SinkKind,
} from '../../contracts/sink/fixture.ts';
import { hostileValues } from '../../contracts/sink/hostile-values.ts';
import { targetContract, untilEnd } from '../../contracts/target-contract.ts';
import { oddConnection } from '../../support/odd-settings.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { useMart } from '../../support/publish/mart.ts';
import { postgresTableRows } from '../../support/publish/read-tables.ts';
import { tableOf } from '../../support/publish/stored-model.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { copyNews } from '../../support/sinks/copying.ts';
import { isLong } from '../../support/trials.ts';

/* A role whose settings turn around what statements mean and what values look like. */

const connection = await oddConnection(await sharedPostgres());
const plain = await postgresSinkKind();
const kind: SinkKind = {
  ...plain,
  options: (folder) => {
    const options = plain.options(folder);
    return options.type === 'postgres' ? { ...options, connection } : options;
  },
  open: async (folder, how) => await openSink(kind.options(folder), how),
  openHistory: async (folder) => await openHistory(kind.options(folder)),
};

if (isLong) {
  describeSink('PostgreSQL with odd settings', kind);
} else {
  describe('a sink in PostgreSQL with odd settings', () => {
    describe('values', () => hostileValues(kind));
  });
}

const numbers = [0.1 + 0.2, 5e-324, 1.797e308, 1e21, 123_456_789.123_456_79];

// Proves promise 1.1
it('reads and copies numbers to the last digit, whatever the settings of the role', async () => {
  const [from, to] = [new Bench(kind), new Bench(sqliteKind)];
  onTestFinished(async () => {
    await from.close();
    await to.close();
  });
  const [source, target] = [await from.open(), await to.open()];
  const started = await from.begin(source, 'r1');
  const { id } = await onlyPartition(source, started.lease);
  const records = numbers.map((score, index) =>
    record(membersTable, { list_id: 'a', id: String(index), score }),
  );
  await source.commit(started.lease, [page(started, id, records)]);
  await started.lease[Symbol.asyncDispose]();
  expect(await scoresOf(from)).toEqual(numbers);
  await copyNews(source, target);
  expect(await scoresOf(to)).toEqual(numbers);
});

/** As `export` and `publish` read them. */
async function scoresOf({ kind: { options }, folder }: Bench): Promise<readonly unknown[]> {
  await using reader = await openExistingRecords(options(folder));
  const table = await reader?.table(news, members);
  if (reader === null || table === null || table === undefined) throw new Error('the table should be there');
  const at = table.columns.findIndex(({ name }) => name === 'score');
  const scores: unknown[] = [];
  for await (const batch of reader.changes(news, table, 0)) {
    scores.push(...batch.map(({ values }) => values[at]));
  }
  return scores;
}

const { client, placeOf, schemaOf } = useMart();

describe('a target in PostgreSQL with odd settings', () => {
  targetContract({
    open: async (folder) => openPostgresTarget({ ...placeOf(folder), connection }, untilEnd),
    rows: async (folder, entity) =>
      await postgresTableRows(client(), schemaOf(folder), {
        connector: entity.connector,
        table: tableOf(entity),
      }),
  });
});
