import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { checkJsonOutput } from '../support/json-output/check-json-output.ts';
import { describeOutput } from '../support/json-output/describe-output.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';

const schema = '../../docs/reference/json-output.schema.json';

// Proves promise 19.2
it('has a schema for what each command prints with --json, as the code says: npm run reference writes it again', async () => {
  await expect(`${JSON.stringify(describeOutput(), null, 1)}\n`).toMatchFileSnapshot(schema);
}, 120_000);

// Proves promise 19.2
it('refuses a document without version, of another shape, and with a member that the schema does not name', () => {
  const good = { version: 1, ok: true, checks: [] };
  const check = (document: object) => () => checkJsonOutput(['check', '--json'], JSON.stringify(document));
  expect(check(good)).not.toThrow();
  expect(check({ ok: true, checks: [] })).toThrow('printed no version');
  expect(check({ ...good, ok: 1 })).toThrow('does not fit what check --json printed');
  expect(check({ ...good, more: 1 })).toThrow('does not fit what check --json printed');
});

describe('every command with --json', () => {
  let redis: PrivateRedis;
  let world: CliWorld;
  let run: string;
  let list: string;
  beforeAll(async () => {
    redis = await startRedis();
    world = await openCliWorld({ settings: '    include: [lists, list_members]\n', redisUrl: redis.url });
    const config = readFileSync(world.config, 'utf8');
    const more = 'publish: { lake: { type: files, directory: ./lake, when: by-hand } }\n';
    writeFileSync(
      world.config,
      `${config.replace('sinks: {', 'sinks: { other: { type: sqlite, path: ./other.db },')}${more}`,
    );
    appendFileSync(
      world.config,
      'notify: { ops: { type: webhook, url: "https://192.0.2.1/" } }\nhttp: { token: a-token-for-the-tests }\n',
    );
    const lines = await world.json('sync', 'newsletter');
    run = (lines.at(-1) as { report: { run: string } }).report.run;
    list = String(jsonLines(await world.cli('export', 'newsletter/lists'))[0]?.['id']);
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await redis[Symbol.asyncDispose]();
  });

  /** In this order, with the code that each ends with. `callCli` holds what it prints against its schema. */
  const runs: readonly (readonly [words: string, code?: number])[] = [
    ['init --base-url https://api.example.com'],
    ['check'],
    ['definitions'],
    ['definitions list'],
    ['definitions show email-marketing lists'],
    ['definitions --dictionary email-marketing'],
    ['connectors list'],
    ['workspaces list'],
    ['login newsletter', 2],
    ['logout newsletter', 2],
    ['sync --dry-run'],
    ['sync newsletter --full'],
    ['sync nothing', 2],
    ['status'],
    ['runs'],
    ['runs <run>'],
    ['actions'],
    ['explain newsletter/lists --key id=<list>'],
    ['explain newsletter/lists --key id=none', 3],
    ['audit newsletter/lists'],
    ['export newsletter/lists'],
    ['export newsletter/lists --output lists.jsonl'],
    ['publish'],
    ['publish'],
    ['publish status lake'],
    ['publish check lake'],
    ['publish prune --dry-run'],
    ['publish schema lake --dialect duckdb'],
    ['backfill newsletter --select list_members --since 2022-01-01 --until 2025-01-01 --window 12mo'],
    ['refetch newsletter/lists --key id=<list>'],
    ['adopt newsletter'],
    ['reset newsletter/lists'],
    ['undo newsletter --run <run>'],
    ['purge newsletter/lists --key id=<list> --dry-run'],
    ['prune newsletter --dry-run'],
    ['cancel <run>', 2],
    ['list newsletter/lists'],
    ['get newsletter/lists --param list_id=<list>'],
    ['download newsletter/lists', 2],
    ['search newsletter/lists'],
    ['search newsletter/lists --filter {"no":1}', 2],
    ['applications list --data served'],
    ['reload', 2],
    ['schedule list'],
    ['schedule pause newsletter --reason test'],
    ['schedule resume newsletter'],
    ['notify status'],
    ['schema diff'],
    ['config show'],
    ['config schema'],
    ['copy --from main --to other newsletter'],
    ['copy --from main --reopen newsletter'],
    ['demo --revision nothing', 2],
    ['worker --http nothing', 2],
  ];

  async function called(words: string): Promise<CliResult> {
    const args = words.split(' ').map((word) => word.replace('<run>', run).replace('<list>', list));
    const config = args[0] === 'init' ? join(world.folder, 'new.yaml') : world.config;
    return await callCli([...args, '--json', '--config', config], { cwd: world.folder, env: world.env });
  }

  // Proves promise 19.2
  it('prints documents of its schema', async () => {
    const ended: object[] = [];
    for (const [words] of runs) {
      const { code, stdout, stderr } = await called(words);
      ended.push({ words, code, isPrinted: stdout !== '', ...(code === 0 ? {} : { stdout, stderr }) });
    }
    const expected = runs.map(([words, code = 0]) => ({ words, code, isPrinted: true }));
    expect(ended).toMatchObject(expected);
  });

  // Proves promise 19.2
  it.each([['ui --http 127.0.0.1:0'], ['mcp --http 127.0.0.1:0'], ['serve --port 0 --size tiny --no-index']])(
    '%s prints a document of its schema when it serves',
    async (words) => {
      const args = [...words.split(' '), '--json', '--config', world.config];
      const cli = startCli(args, { cwd: world.folder, env: world.env });
      await cli.until('"url"');
      cli.child.kill('SIGINT');
      const { stdout } = await cli.result;
      expect(stdout).toMatch(/^\{"version":1,/);
      checkJsonOutput(args, stdout);
    },
  );

  // Proves promise 19.2
  it('is one of those that are run here', () => {
    const run = new Set([...runs.map(([words]) => words.split(' ')[0]), 'ui', 'mcp', 'serve']);
    expect(run).toEqual(new Set(commands.map(({ name }) => name)));
  });
});
