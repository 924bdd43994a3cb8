import { expect, it } from 'vitest';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';

const bench = useBench(await postgresSinkKind());

it('keeps each block of remembered bytes in one piece, two in a page, whatever the names are', async () => {
  await bench().open();
  const pages = 30;
  await bench().ledger(
    `INSERT INTO _sync_raw SELECT repeat('c', 60), repeat('e', 100), n, sha256(n::text::bytea) || decode(repeat('ab', 2016), 'hex'),
       '2026-03-01T10:00:00.000Z' FROM generate_series(1, ${2 * pages}) AS n`,
  );
  const [sizes] = await bench().ledger(
    `SELECT pg_relation_size(oid) / 8192 AS pages, pg_relation_size(reltoastrelid) AS aside
     FROM pg_class WHERE oid = '_sync_raw'::regclass`,
  );
  expect(sizes).toEqual({ pages, aside: 0 });
});
