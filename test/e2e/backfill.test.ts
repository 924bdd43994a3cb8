import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { sameRow } from '../support/expected-rows.ts';
import { builtInDefinition, sampleRows, startSampleService } from '../support/sample-service.ts';
import { triedSampleSinks } from '../support/all-sample-sinks.ts';
import { callCli, jsonLines, main } from '../support/run-cli.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { text } from '../support/service/served-api.ts';
import { entityNamed, testCredentials } from '../support/sync-once.ts';
import { isLong, startSeed } from '../support/trials.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';
import type { Service } from '../../src/service/start-service.ts';

const seed = startSeed();
const size = isLong ? 'small' : { members: 800 };
/** Then it may end. */
const mostKills = isLong ? 200 : 2;
const connector = 'newsletter';
const year = ['--since', '2024-01-01', '--until', '2025-01-01', '--window', '1mo'];

let folder: string;
let service: Service;
/** Members that changed in that year are in no list, as if the service had lost them for a while. */
let isHiding = false;
let memberCalls = 0;

const hiding = (account: SampleAccount): SampleAccount => ({
  get: (entity, params) => account.get(entity, params),
  list: (entity, params) => {
    const listing = account.list(entity, params);
    if (entity === 'list_members') memberCalls += 1;
    if (!isHiding || entity !== 'list_members') return listing;
    const all = listing.slice(0, Number.POSITIVE_INFINITY);
    return listingOf(
      all.filter(({ last_changed }) => !text(last_changed).startsWith('2024')),
      listing.metadata,
    );
  },
});

it.beforeEach(async ({ folder: made }) => {
  folder = made;
  service = await startSampleService(size, { latencyMs: 10, wrap: hiding });
  isHiding = false;
  memberCalls = 0;
});

afterEach(() => service.close());

interface Ended {
  readonly code: number | null;
  readonly stdout: readonly { readonly kind?: string; readonly continues?: string | null }[];
  readonly stderr: string;
}

/** Runs the program, and kills it `afterMs` behind the start of its first run; without that in this process. */
async function run(args: readonly string[], afterMs: number | null = null): Promise<Ended> {
  const all = [...args, '--json', '--config', path.join(folder, 'config.yaml')];
  const env = { TEST_SECRET: testCredentials.clientSecret };
  if (afterMs === null) {
    const ended = await callCli(all, { cwd: folder, env });
    return { ...ended, stdout: jsonLines(ended) };
  }
  const child = spawn(process.execPath, [main, ...all], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const stdout: Ended['stdout'][number][] = [];
  let stderr = '';
  let isKilling = false;
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = JSON.parse(text) as Ended['stdout'][number];
    stdout.push(line);
    if (line.kind !== 'run-started' || isKilling) return;
    isKilling = true;
    setTimeout(() => child.kill('SIGKILL'), afterMs);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

describe.each(triedSampleSinks)('a backfill of twelve months into %s', (type, sink) => {
  // Proves promise 13
  it(`killed again and again brings exactly what the syncs have missed, and leaves their cursors unchanged (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    writeFileSync(
      path.join(folder, 'config.yaml'),
      `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }
sinks: { test: ${JSON.stringify(sink.settings(folder))} }
connectors: { ${connector}: { definition: email-marketing, id: mailing, sink: test, rateLimit: { requestsPerSecond: 1000 } } }
`,
    );
    const { table } = entityNamed(builtInDefinition('email-marketing'), 'list_members');
    const truth = sampleRows('email-marketing', size).get('list_members') ?? new Map();
    const partitions = (where: string): readonly unknown[] =>
      sink.ledger(folder, `SELECT * FROM _sync_partitions WHERE ${where} ORDER BY id`);
    const members = ['--select', 'list_members'];

    isHiding = true;
    expect((await run(['sync', connector, ...members])).code).toBe(0);
    isHiding = false;
    expect((await run(['sync', connector, ...members])).code).toBe(0);
    // A read of changes does not look back that far: this is what a backfill is for.
    const missing = truth.size - sink.rows(folder, connector, table).size;
    expect(missing).toBeGreaterThan(100);
    const living = partitions("backfill = ''");

    let kills = 0;
    let wentOn = 0;
    for (;;) {
      const { code, stdout, stderr } = await run(
        ['backfill', connector, ...members, ...year],
        kills < mostKills ? 100 + random() * 700 : null,
      );
      wentOn += stdout.filter(({ kind, continues }) => kind === 'run-started' && continues !== null).length;
      if (code !== null) {
        expect({ seed, code, stderr }).toEqual({ seed, code: 0, stderr });
        break;
      }
      kills += 1;
    }

    const stored = sink.rows(folder, connector, table);
    const wrong = [...truth].filter(([key, row]) => {
      const found = stored.get(key);
      return found === undefined || !sameRow(found, row);
    });
    expect({ seed, wrong: wrong.length, rows: stored.size }).toEqual({ seed, wrong: 0, rows: truth.size });
    expect(partitions("backfill = ''")).toEqual(living);
    expect(partitions("backfill <> ''")).toEqual([]);
    expect(sink.ledger(folder, 'SELECT DISTINCT "window" FROM _sync_windows')).toHaveLength(12);

    const before = memberCalls;
    expect((await run(['backfill', connector, ...members, ...year])).code).toBe(0);
    expect(memberCalls).toBe(before);
    expect(kills).toBeGreaterThan(0);
    console.log(`${type}: ${missing} members, ${kills} kills, ${wentOn} windows gone on with (seed ${seed})`);
  }, 300_000);
});
