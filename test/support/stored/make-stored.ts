import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { Bench } from '../../contracts/sink/fixture.ts';
import { sharedPostgres } from '../postgres.ts';
import { packFolder, packJson, packText } from './packed-files.ts';
import { seenState } from './seen-state.ts';
import { storedKind, storedTypes, type StoredType } from './stored-kinds.ts';
import { fillSink, goOn } from './stored-sink.ts';

/*
 * Makes the fixtures of stored sinks with the program as it is: run it in the sources of their version (`node --import
 * tsx test/support/stored/make-stored.ts sqlite 44`: the kind of sink, and the first seed to be tried).
 */

/** What must be there, or the fixture shows too little: of the history, and in the end. */
const ofNews = [
  ...['also', 'missing', 'seen', 'windows', 'hours', 'quarantine', 'drift', 'downloads'].map(
    (table) => `_sync_${table}`,
  ),
  '_sync_missing WHERE missed > 0',
  ...[
    'failure IS NOT NULL',
    'set_aside_run IS NOT NULL',
    'sealed_at IS NOT NULL AND due_since IS NULL',
    'due_since IS NOT NULL AND position IS NOT NULL',
  ].map((state) => `_sync_partitions WHERE ${state}`),
];
const ofAll = [
  '_sync_pauses',
  ...['tree IS NOT NULL', ...[1, 2, 3].map((gone) => `gone = ${gone}`)].map(
    (state) => `_sync_partitions WHERE ${state}`,
  ),
];

const [wanted, firstSeed = '1'] = process.argv.slice(2);
for (const type of storedTypes) if (wanted === undefined || wanted === type) await make(type);
process.exit();

async function make(type: StoredType): Promise<void> {
  const kind = await storedKind(type);
  for (let seed = Number(firstSeed); ; seed += 1) {
    const bench = new Bench(kind);
    try {
      const saved = await fillSink(bench, seed, async () => await checkRich(bench, ofNews));
      await checkRich(bench, ofAll);
      const options = kind.options(bench.folder);
      const before = await seenState(options);
      if (options.type === 'postgres') packText(await dump(options.schema), 'postgres.sql.br');
      else packFolder(join(bench.folder, 'sink'), `${type}.json.br`);
      const after = await goOn(bench, saved);
      packJson({ saved, before, after }, `${type}-expected.json.br`);
      console.log(type, seed, JSON.stringify({ ...after, news: null }));
      return;
    } catch (error) {
      console.log(type, seed, error instanceof Error ? error.message.slice(0, 300) : error);
    } finally {
      await bench.close();
    }
  }
}

async function checkRich(bench: Bench, places: readonly string[]): Promise<void> {
  for (const place of places) {
    const [found] = await bench.ledger(`SELECT count(*) AS rows FROM ${place}`);
    if (Number(found?.['rows']) === 0) throw new Error(`nothing in ${place}`);
  }
}

/** The schema as statements that any client can send one by one. */
async function dump(schema: string): Promise<string> {
  const { url } = await sharedPostgres();
  const args = ['--schema', schema, '--no-owner', '--inserts', '--rows-per-insert=200', url];
  const text = execFileSync('pg_dump', args, { maxBuffer: 1 << 28 }).toString();
  // Around the statements there are some for psql alone.
  return text
    .slice(text.indexOf('CREATE SCHEMA'))
    .replace(/\n\\unrestrict .*\n*$/, '\n')
    .replaceAll(schema, 'stored_sink');
}
