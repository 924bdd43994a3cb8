import { expect, it } from 'vitest';
import { accessSink } from '../../../src/sinks/registry.ts';
import { schemaVersion } from '../../../src/sinks/postgres/open-schema.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';

const kind = await postgresSinkKind();
const bench = useBench(kind);

// Proves promise 1.7
it('is refused where it is of an older version than the oldest that is read, and stays as it was', async () => {
  await bench().open();
  await bench().closeSinks();
  await bench().ledger('UPDATE _sync_meta SET version = 1');
  const refused = {
    code: 'SINK_INCOMPATIBLE',
    message: expect.stringMatching(
      new RegExp(
        `schema version 1, which is too old; 2 to ${schemaVersion} are expected. Nothing in it was changed. Keep it, and sync into a new sink`,
      ),
    ) as string,
  };
  await expect(bench().open()).rejects.toMatchObject(refused);
  const access = accessSink(kind.options(bench().folder));
  await expect(access.openHistory()).rejects.toMatchObject(refused);
  await expect(access.openRecords()).rejects.toMatchObject(refused);
  expect(await bench().ledger('SELECT version FROM _sync_meta')).toEqual([{ version: 1 }]);
});
