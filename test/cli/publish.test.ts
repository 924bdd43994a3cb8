import {
  appendFileSync,
  existsSync,
  readdirSync,
  renameSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { fakeBucket, fakeKey, startFakeS3 } from '../support/publish/fake-s3.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';

let world: CliWorld;

beforeEach(async () => {
  world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  appendFileSync(
    world.config,
    `publish:
  lake: { type: files, directory: ./lake, format: jsonl, keep: 30d }
  hand: { type: files, directory: ./hand, format: csv, connectors: [newsletter], when: by-hand }
  mart: { type: postgres, url: '\${MART_URL}', when: by-hand }
`,
  );
});

afterEach(() => world[Symbol.asyncDispose]());

const filesIn = (target: string): readonly string[] =>
  readdirSync(path.join(world.folder, target), { recursive: true, encoding: 'utf8' });

describe('connector-sync publish', () => {
  it('publishes what is stored, and then says that nothing is new', async () => {
    expect(await world.cli('publish', 'hand')).toMatchObject({
      code: 0,
      stdout: 'hand: nothing is stored yet; run "npx --no-install connector-sync sync" first\n',
    });
    await world.json('sync', 'newsletter');
    const [first, ...none] = await world.json('publish', 'hand');
    expect(none).toEqual([]);
    expect(first).toMatchObject({ kind: 'publication', target: 'hand', result: 'published', publication: 1 });
    expect(first?.['entities']).toContainEqual(
      expect.objectContaining({ connector: 'newsletter', generation: 1, deletes: 0, snapshotRows: null }),
    );
    expect(await world.json('publish', 'hand')).toMatchObject([{ result: 'unchanged', publication: 1 }]);
    expect((await world.cli('publish', 'hand')).stdout).toMatch(
      /^hand: nothing new since publication 1 of 2/,
    );

    world.moveTo(1);
    await world.json('sync', 'newsletter');
    expect((await world.cli('publish', 'status', 'hand')).stdout).toContain('something newer is stored');
    const shown = await world.cli('publish', 'hand');
    expect(shown.stdout).toMatch(
      /^hand: publication 2: \d+ rows?, \d+ deletes?, \d+ files?, [\d.]+ [KM]?B, in /,
    );
    expect(shown.stdout).toMatch(/\n {2}entity +rows +(deletes +)?complete as of\n {2}newsletter\//);
    expect((await world.cli('publish', 'status', 'hand')).stdout).toMatch(
      /^hand \(files, by-hand\): publication 2 of .*, up to date\n {2}\d+ entities, complete as of .* or later\n {2}entity +generation/,
    );
    // No row has changed, but all are known to be complete at a later time.
    await world.json('sync', 'newsletter');
    expect((await world.cli('publish', 'status', 'hand')).stdout).toContain('something newer is stored');
    expect(await world.json('publish', 'hand')).toMatchObject([{ result: 'published', publication: 3 }]);
  });

  // Proves promise 20.5
  it('starts a new generation where the format of its files has changed, so that no earlier file counts', async () => {
    await world.json('sync', 'newsletter');
    const config = readFileSync(world.config, 'utf8');
    writeFileSync(world.config, config.replace('./lake, format: jsonl', './lake, format: csv'));
    expect((await world.cli('publish', 'status', 'lake')).stdout).toMatch(
      /^lake .*publication 1 of [^,]*\n {2}! The next publication has all rows again, because its files were \.jsonl and are now \.csv\n/,
    );
    const [anew] = await world.json('publish', 'lake');
    expect(anew).toMatchObject({ result: 'published', publication: 2 });
    const entities = anew?.['entities'] as readonly { readonly generation: number }[];
    expect(entities.filter(({ generation }) => generation !== 2)).toEqual([]);
    const kinds = filesIn('lake').flatMap((name) => /\/g2\/.*\.(\w+)$/.exec(name)?.[1] ?? []);
    expect(new Set(kinds)).toEqual(new Set(['csv']));
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    expect(await world.json('publish', 'lake')).toMatchObject([{ result: 'unchanged' }]);
  });

  it('asks for freshness only of what the config still has, and says what it no longer has', async () => {
    await world.json('sync', 'newsletter');
    await world.json('publish', 'hand');
    const config = readFileSync(world.config, 'utf8');
    writeFileSync(world.config, config.replace('[lists, campaigns]', '[lists]'));
    const database = new Database(path.join(world.folder, 'main.db'));
    database.exec(`UPDATE _sync_tables SET as_of = '2020-01-01T00:00:00.000Z' WHERE entity = 'campaigns'`);
    database.close();
    await world.json('sync', 'newsletter');
    const fresh = await world.cli('publish', 'hand', '--require-fresh', '1d');
    expect({ code: fresh.code, stderr: fresh.stderr }).toEqual({ code: 0, stderr: '' });
    const { stdout } = await world.cli('publish', 'status', 'hand');
    expect(stdout).toMatch(/, 1 no longer in the config\n/);
    expect(stdout).toMatch(/newsletter\/campaigns .* no longer in the config\n/);
  });

  // Proves promise 20.5
  it('does not take a sink that is away for an empty one', async () => {
    await world.json('sync', 'newsletter');
    const [database, away] = [path.join(world.folder, 'main.db'), path.join(world.folder, 'away.db')];
    renameSync(database, away);
    const refused = await world.cli('publish', 'lake');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(
      /^lake: The sink main is not there, and target lake holds publication 1\./,
    );
    const status = await world.cli('publish', 'status', 'lake');
    expect(status.code).toBe(1);
    expect(status.stdout).toMatch(/^lake .*publication 1 of [^,]*\n {2}! The sink main is not there/);
    expect(existsSync(database)).toBe(false);
    renameSync(away, database);
    expect(await world.json('publish', 'lake')).toMatchObject([{ result: 'unchanged' }]);
  });

  it('refuses a target that is ahead of its sink, and names the option for a new generation', async () => {
    await world.json('sync', 'newsletter');
    const database = new Database(path.join(world.folder, 'main.db'));
    // As of a sink that lost its newest commits, runs and all.
    database.exec('UPDATE _sync_meta SET seq = seq - 1');
    database.close();
    const refused = await world.cli('publish', 'lake');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('--new-generation');
    const status = await world.cli('publish', 'status', 'lake');
    expect(status.code).toBe(2);
    expect(status.stdout).toMatch(
      /^lake .*publication 1 of [^,]*\n {2}! Target lake holds .*\n {2}\d+ entities/,
    );
  });

  it('reads targets back, starts a new generation, adds snapshots and removes what is not kept', async () => {
    await world.json('sync', 'newsletter');
    expect((await world.cli('publish', 'check', 'lake')).stdout).toMatch(
      /^lake: 1 publication, \d+ files, .* rows: all as published\n$/,
    );
    const [anew] = await world.json('publish', 'lake', '--new-generation');
    expect(anew).toMatchObject({ publication: 2 });
    expect(anew?.['newGenerations']).toContainEqual({
      connector: 'newsletter',
      entity: 'lists',
      reason: 'it was asked for',
    });
    const [withSnapshot] = await world.json('publish', 'snapshot', 'lake');
    const entities = withSnapshot?.['entities'] as readonly { readonly snapshotRows: number }[];
    expect(entities.every(({ snapshotRows }) => snapshotRows > 0)).toBe(true);
    expect(await world.json('publish', 'prune', 'lake', '--dry-run')).toMatchObject([
      { kind: 'target-pruned', target: 'lake', isDryRun: true, publications: 0, files: 0 },
    ]);
    expect((await world.cli('publish', 'prune', 'lake')).stdout).toBe('lake: nothing to remove\n');

    const damaged = filesIn('lake').find((name) => name.endsWith('.jsonl')) ?? '';
    writeFileSync(path.join(world.folder, 'lake', damaged), 'not what was published');
    const check = await world.cli('publish', 'check', 'lake');
    expect(check).toMatchObject({ code: 1 });
    expect(check.stdout).toContain(`: 1 problem\n  ! `);
    expect(check.stdout).toContain(damaged);
  });

  it('makes no target where its path leads nowhere', async () => {
    appendFileSync(
      world.config,
      `  slip: { type: files, directory: ./nowhere/lake, format: csv, when: by-hand }
  desk: { type: duckdb, path: ./nowhere/deeper/desk.duckdb, when: by-hand }
`,
    );
    await world.json('sync', 'wiki', '--select', 'users');
    for (const target of ['slip', 'desk']) {
      const { code, stderr } = await world.cli('publish', target);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`mkdir -p '${world.folder}/nowhere'`)]);
    }
    expect(existsSync(path.join(world.folder, 'nowhere'))).toBe(false);
  });

  it('says what killed publishers left and when it goes, also where every publication stays', async () => {
    await world.json('sync', 'newsletter');
    await world.json('publish', 'hand');
    expect((await world.cli('publish', 'prune', 'hand')).stdout).toBe(
      'hand: nothing to remove (its settings keep every publication)\n',
    );
    const folder = path.join(world.folder, 'hand/newsletter/lists/g1/changes');
    const left = ['00000002-0001-0a1b2c3d.csv', '.00000002-0002-0a1b2c3d.csv.staged.partial'];
    for (const name of left) writeFileSync(path.join(folder, name), 'x'.repeat(600));
    const waiting = { files: 2, bytes: 1200 };
    expect(await world.json('publish', 'prune', 'hand')).toMatchObject([
      { publications: 0, files: 0, waiting },
    ]);
    expect((await world.cli('publish', 'prune', 'hand')).stdout).toBe(
      'hand: nothing to remove yet: 2 files, 1 KB that no publication names go when they are a day old, or with the next publication\n',
    );
    utimesSync(path.join(folder, left[1] ?? ''), 0, 0);
    const text =
      '0 publications (its settings keep every publication), 1 file, 600 B; 1 file, 600 B that no publication names goes when it is a day old, or with the next publication\n';
    expect((await world.cli('publish', 'prune', 'hand', '--dry-run')).stdout).toBe(
      `hand: would remove ${text}`,
    );
    expect((await world.cli('publish', 'prune', 'hand')).stdout).toBe(`hand: removed ${text}`);
  });

  it('ends on Ctrl-C with nothing published, and publishes when it is asked again', async () => {
    await using s3 = await startFakeS3();
    const { accessKeyId, secretAccessKey } = fakeKey;
    appendFileSync(
      world.config,
      `  bucket: { type: s3, bucket: ${fakeBucket}, endpoint: "${s3.endpoint}", accessKeyId: ${accessKeyId}, secretAccessKey: "${secretAccessKey}", format: jsonl, when: by-hand }\n`,
    );
    await world.json('sync', 'newsletter');
    const asked = new Promise<void>((resolve) => {
      s3.fault = ({ operation, key }) => {
        if (operation !== 'put' || !key.endsWith('.jsonl')) return null;
        resolve();
        return 'silence';
      };
    });
    const running = startCli(['publish', 'bucket', '--config', world.config], {
      cwd: world.folder,
      env: world.env,
    });
    await Promise.race([asked, running.result]);
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.result;
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(stderr).toContain('Stopping: what is not published yet stays out');
    s3.fault = () => null;
    expect(await world.json('publish', 'status', 'bucket')).toMatchObject([{ publication: null }]);
    expect(await world.json('publish', 'bucket')).toMatchObject([{ result: 'published', publication: 1 }]);
    expect(await world.json('publish', 'check', 'bucket')).toMatchObject([{ problems: [] }]);
  });

  it('ends with code 3 where an entity is not as fresh as it must be', async () => {
    expect((await world.cli('publish', 'hand', '--require-fresh', '1d')).code).toBe(3);
    await world.json('sync', 'newsletter', '--max-calls', '1');
    const early = await world.cli('publish', 'hand', '--require-fresh', '1d', '--json');
    expect(early.code).toBe(3);
    const events = jsonLines(early);
    expect(events).toMatchObject([{ result: 'published' }, { kind: 'not-fresh', target: 'hand' }]);
    expect(events[1]?.['entities']).toContainEqual(expect.objectContaining({ asOf: null }));
    await world.json('sync', 'newsletter');
    expect((await world.cli('publish', 'hand', '--require-fresh', '1d')).code).toBe(0);
    expect((await world.cli('publish', 'hand', '--require-fresh', 'soon')).code).toBe(2);
  });

  it('gives every target its turn, and needs what is missing only for the target that lacks it', async () => {
    await world.json('sync', 'newsletter');
    const result = await world.cli('publish');
    expect(result.code).toBe(2);
    expect(result.stdout).toContain('lake: nothing new since publication 1');
    expect(result.stdout).toContain('hand: publication 1: ');
    expect(result.stderr).toContain('publish.mart.url: the environment variable MART_URL is not set');
    expect(await world.cli('publish', 'lakes')).toMatchObject({
      code: 2,
      stderr: 'Error: Unknown target "lakes"; did you mean "lake"?\n',
    });
  });
});

describe('a target of which something is missing here', () => {
  it('costs no sync, and keeps a worker that would publish into it from starting', async () => {
    writeFileSync(
      world.config,
      readFileSync(world.config, 'utf8').replace("url: '${MART_URL}', when: by-hand", "url: '${MART_URL}'"),
    );
    const synced = await world.cli('sync', 'newsletter');
    expect(synced.code).toBe(0);
    expect(synced.stdout).toContain('\nlake: publication 1: ');
    expect(synced.stderr).toMatch(/^Warning: target mart was not published to, .*MART_URL is not set/m);
    const worker = await world.cli('worker', '--connectors', 'newsletter');
    expect(worker).toMatchObject({ code: 2 });
    expect(worker.stderr).toContain('publish.mart.url: the environment variable MART_URL is not set');
  });
});

describe('connector-sync check', () => {
  it('says of each target whether it could be published to, and leaves nothing there', async () => {
    writeFileSync(path.join(world.folder, 'hand'), 'a file in the place of the folder');
    const result = await world.cli('check');
    expect(result.code).toBe(2);
    expect(result.stdout).toContain('✓ target lake: files can be written; nothing was published yet\n');
    expect(result.stdout).toMatch(/✗ target hand: .*hand is a file or lies below one/);
    expect(result.stdout).toMatch(/✗ target mart: .*MART_URL is not set/);
    expect(filesIn('lake').filter((name) => name !== '_publications')).toEqual([]);
  });
});

describe('connector-sync sync', () => {
  it('publishes at its end, once into each target that follows what it read', async () => {
    const events = await world.json('sync');
    expect(events.slice(-1)).toMatchObject([
      { kind: 'publication', target: 'lake', result: 'published', publication: 1 },
    ]);
    expect(events.filter(({ kind }) => kind === 'publication')).toHaveLength(1);
    expect(filesIn('lake').filter((name) => name.endsWith('.jsonl')).length).toBeGreaterThan(3);
    expect(readdirSync(world.folder)).not.toContain('hand');
    const again = await world.cli('sync', 'wiki');
    expect(again.stdout).toMatch(/\nlake: publication 2: no row changed, in /);
  });

  // Proves promise 20.9
  it('keeps its exit code when a publication fails, and says how to repeat it', async () => {
    writeFileSync(path.join(world.folder, 'lake'), 'a file in the place of the folder');
    const result = await world.cli('sync', 'newsletter');
    expect(result.code).toBe(0);
    expect(result.stderr).toContain('Warning: target lake was not published to, what was synced is stored: ');
    expect(result.stderr).toContain('To publish: npx --no-install connector-sync publish lake\n');
    expect(readFileSync(path.join(world.folder, 'lake'), 'utf8')).toBe('a file in the place of the folder');
    expect((await world.cli('publish', 'lake')).code).not.toBe(0);
  });
});
