import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { freePort } from '../support/redis.ts';
import { callCli, jsonLines, runCli, startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

let folder: string;

it.beforeEach(({ folder: made }) => {
  folder = made;
});

// In `npm test` the commands of the README run the demo, and then a day later: `documents.test.ts`.
it.runIf(isLong)(
  'demo fills a database over HTTP, answers questions from it, and writes nothing the second time',
  async () => {
    const first = await runCli(['demo', '--directory', 'd'], { cwd: folder });
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(/^newsletter: ok in /m);
    expect(first.stdout).toMatch(/^wiki: ok in /m);
    expect(first.stdout).toMatch(/^ +Customers +\d+ +\d+$/m);
    // Lines of the two runs' tables are for any width; the rest fits the narrowest usual terminal.
    const afterRuns = first.stdout.slice(first.stdout.indexOf('records read in'));
    expect(afterRuns.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(first.stdout).toContain(
      '    npx --no-install connector-sync status --config d/connector-sync.yaml\n',
    );
    expect((await stat(join(folder, 'd', 'demo.db'))).size).toBeGreaterThan(100_000);
    expect(first.stdout).toMatch(/^ {2}parquet: publication 1: [\d,]+ rows, 0 deletes, \d+ files, /m);
    const [, sql = ''] = /^ {4}duckdb -c "(.*)"$/m.exec(first.stdout) ?? [];
    const duckdb = await DuckDBInstance.create();
    const asked = await (await duckdb.connect()).runAndReadAll(sql.replace("'d/", `'${folder}/d/`));
    expect(asked.currentRowCount).toBe(30);
    duckdb.closeSync();

    const second = await callCli(['demo', '--directory', 'd', '--json'], { cwd: folder });
    expect(second.code).toBe(0);
    const summary = jsonLines(second).at(-1);
    expect(summary).toMatchObject({ kind: 'demo', written: 0 });
    const answers = summary?.['answers'] as readonly { rows: readonly Record<string, string>[] }[];
    // A list, a subject, a page: what people call it, and no id.
    const named = answers.map(({ rows }) => rows.map((row) => Object.values(row)[0]));
    expect(named).toMatchObject([{ length: 5 }, { length: 3 }, { length: 3 }]);
    expect(
      named.flat().filter((name) => !/\p{L}{2}/u.test(name ?? '') || /^Untitled|-\w{4}-/.test(name ?? '')),
    ).toEqual([]);
  },
  90_000,
);

it.runIf(isLong)(
  'demo --revision writes what a day changed',
  async () => {
    expect((await callCli(['demo', '--directory', 'd'], { cwd: folder })).code).toBe(0);
    const later = await runCli(['demo', '--directory', 'd', '--revision', '1'], { cwd: folder });
    expect(later.code).toBe(0);
    expect(later.stdout).toMatch(/^\d+ rows written, \d+ marked as deleted \(/m);
    expect(later.stdout).toMatch(/^The first run read [\d,]+ records in \d+ calls\. /m);
    expect(later.stdout).toContain('    npx --no-install connector-sync demo --directory d --revision 2\n');

    const status = await callCli(['status', '--config', join('d', 'connector-sync.yaml')], {
      cwd: folder,
    });
    expect(status.stdout).toMatch(/^newsletter: last run ok/m);
  },
  90_000,
);

it('demo --ui serves the pages of what it has stored until Ctrl-C, and then leaves no server behind', async () => {
  // No Redis answers there.
  const env = { REDIS_URL: 'redis://127.0.0.1:1' };
  const running = startCli(['demo', '--ui', '--directory', 'd'], { cwd: folder, env });
  await running.until('Ctrl-C stops.');
  const [, url = ''] = /: (http:\/\/127\.0\.0\.1:\d+)$/m.exec(running.output().stdout) ?? [];
  const page = await (await fetch(url)).text();
  expect(page).toContain('<a href="connectors/newsletter">newsletter</a>');
  expect(page).toContain('<a href="connectors/wiki">wiki</a>');
  running.child.kill('SIGINT');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toContain('Next:\n');
  expect(stdout).not.toContain(' ui --config ');
  expect(stderr.trimEnd().split('\n').slice(-2)).toEqual([
    'Ctrl-C stops.',
    'Stopping. Ctrl-C again quits now.',
  ]);
  await expect(fetch(url)).rejects.toThrow('fetch failed');
}, 180_000);

it('serve prints its address and credentials, and ends with 0 on SIGTERM', async () => {
  const running = startCli(['serve', '--port', '0', '--size', 'tiny', '--no-index', '--json'], {
    cwd: folder,
  });
  await running.until('"url"');
  running.child.kill('SIGTERM');
  const result = await running.result;
  expect(result.code).toBe(0);
  expect(jsonLines(result)).toMatchObject([
    {
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
      connectors: ['sample-newsletter', 'sample-wiki', 'sample-library'],
      clientId: 'local',
      clientSecret: expect.stringMatching(/^.{20,}$/) as string,
    },
  ]);
});

it('serve never prints credentials that it was given', async () => {
  const running = startCli(['serve', '--port', '0', '--size', 'tiny', '--no-index'], {
    cwd: folder,
    env: {
      CONNECTOR_SYNC_CLIENT_ID: 'me',
      CONNECTOR_SYNC_CLIENT_SECRET: 'given-by-the-user-and-long-enough',
    },
  });
  await running.until('Ctrl-C stops it');
  running.child.kill('SIGINT');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toContain('credentials: from CONNECTOR_SYNC_CLIENT_ID');
  expect(stdout + stderr).not.toContain('given-by-the-user-and-long-enough');
});

it('serve shows the accounts of later days, so that a sync finds changed and deleted records', async () => {
  const port = String(await freePort());
  const env = {
    CONNECTOR_SYNC_CLIENT_ID: 'me',
    CONNECTOR_SYNC_CLIENT_SECRET: 'given-by-the-user-and-long-enough',
  };
  await writeFile(join(folder, 'c.yaml'), configFor(port));
  const reports = [];
  for (const revision of ['0', '1']) {
    const serve = ['serve', '--port', port, '--size', 'tiny', '--no-index', '--revision', revision];
    const running = startCli(serve, { cwd: folder, env });
    await running.until('Ctrl-C stops it');
    const result = await callCli(['sync', '--config', 'c.yaml', '--full', '--json'], { cwd: folder });
    reports.push(jsonLines(result).at(-1)?.['report']);
    running.child.kill('SIGINT');
    expect(await running.result).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(
        `--revision ${Number(revision) + 1} serves the accounts a day later`,
      ) as string,
    });
  }
  const later = reports[1] as { readonly entities: readonly Counted[] } | undefined;
  const sum = (of: (entity: Counted) => number): number =>
    (later?.entities ?? []).reduce((total, entity) => total + of(entity), 0);
  expect(sum(({ counts }) => counts.inserted)).toBeGreaterThan(0);
  expect(sum(({ counts }) => counts.updated)).toBeGreaterThan(0);
  expect(sum(({ counts }) => counts.unchanged)).toBeGreaterThan(0);
  expect(sum(({ deleted }) => deleted)).toBeGreaterThan(0);
});

it.each(['201', '-1', '1.5', '0x1', ''])('serve refuses %j as a revision', async (revision) => {
  const result = await callCli(['serve', `--revision=${revision}`], { cwd: folder });
  expect(result.code).toBe(2);
  expect(result.stderr).toContain(
    `--revision: expected a whole number from 0 to 200, got ${JSON.stringify(revision)}.`,
  );
});

interface Counted {
  readonly counts: { readonly inserted: number; readonly updated: number; readonly unchanged: number };
  readonly deleted: number;
}

function configFor(port: string): string {
  return `
api: { baseUrl: 'http://127.0.0.1:${port}', clientId: me, clientSecret: given-by-the-user-and-long-enough }
sinks: { main: { type: sqlite, path: ./s.db } }
connectors:
  newsletter: { definition: email-marketing, id: sample-newsletter, sink: main, rateLimit: { requestsPerSecond: 1000 } }
`;
}
