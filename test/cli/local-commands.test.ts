import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

const withoutSecrets = `api: { baseUrl: "\${CONNECTOR_API_URL}", clientId: "\${CONNECTOR_API_CLIENT_ID}", clientSecret: "\${file:./absent}" }
redis: { url: "\${REDIS_URL}" }
http: { token: "\${BOARD_TOKEN}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  newsletter:
    definition: email-marketing
    id: c-news
    sink: main
    schedule: { every: 1h }
`;

let world: CliWorld;
let run: string;
let list: string;

beforeAll(async () => {
  world = await openCliWorld();
  writeFileSync(join(world.folder, 'bare.yaml'), withoutSecrets);
  const lines = await world.json('sync', 'newsletter');
  list = String(jsonLines(await world.cli('export', 'newsletter/lists'))[0]?.['id']);
  run = (lines.at(-1) as { report: { run: string } }).report.run;
});

afterAll(() => world[Symbol.asyncDispose]());

/** No variable is set, and the secret file is not there. */
function bare(...args: readonly string[]): Promise<CliResult> {
  return callCli([...args, '--config', 'bare.yaml'], { cwd: world.folder });
}

describe('without credentials', () => {
  // Proves promise 18
  it.each([
    [['status']],
    [['runs']],
    [['runs', '<run>']],
    [['explain', 'newsletter/lists', '--key', 'id=<list>']],
    [['schema', 'diff']],
    [['config', 'show']],
    [['export', 'newsletter/lists']],
    [['search', 'newsletter/lists']],
    [['sync', '--dry-run']],
    [['undo', 'newsletter', '--run', '<run>']],
    [['schedule', 'pause', 'newsletter', '--reason', 'a test']],
    [['schedule', 'resume', 'newsletter']],
    [['reset', 'newsletter/lists']],
    [['reset', 'newsletter/lists', '--yes']],
  ])('%j reads what is stored and asks for none', async (args) => {
    const result = await bare(...args.map((arg) => arg.replace('<run>', run).replace('<list>', list)));
    expect(`${result.stdout}${result.stderr}`).not.toMatch(/CLIENT_ID|absent/);
    expect(result.code).toBe(0);
  });

  it('finds a run to cancel', async () => {
    const { code, stderr } = await bare('cancel', run);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`Run ${run} of newsletter is not running`)]);
  });

  // Proves promise 18
  it.each([
    [['sync'], ['CONNECTOR_API_CLIENT_ID', 'absent', 'REDIS_URL']],
    [
      ['list', 'newsletter/lists'],
      ['CONNECTOR_API_CLIENT_ID', 'absent'],
    ],
    [
      ['backfill', 'newsletter', '--since', '2020-01-01', '--window', '1mo'],
      ['CONNECTOR_API_CLIENT_ID', 'absent', 'REDIS_URL'],
    ],
    [['schedule', 'apply'], ['REDIS_URL']],
    [['schedule', 'list'], ['REDIS_URL']],
    [['check'], ['CONNECTOR_API_CLIENT_ID', 'absent', 'REDIS_URL', 'BOARD_TOKEN']],
  ])('%j names all that it misses, at once, with its line', async (args, missing) => {
    const { code, stderr } = await bare(...args);
    expect(code).toBe(2);
    const all = ['CONNECTOR_API_CLIENT_ID', 'absent', 'REDIS_URL', 'BOARD_TOKEN'];
    expect(all.filter((name) => stderr.includes(name))).toEqual(missing);
    expect(stderr).toContain('bare.yaml:');
  });

  it('shows what is missing in the config, and never an empty text in its place', async () => {
    const [shown] = jsonLines(await bare('config', 'show', '--json'));
    expect(shown).toMatchObject({
      api: { baseUrl: '[missing]', clientId: '[missing]', clientSecret: '[missing]' },
      redis: { url: '[missing]' },
      http: { token: '[missing]' },
      connectors: { newsletter: { sink: 'main' } },
    });
  });
});

describe('a mistake that is not a missing secret', () => {
  it.each([
    ['a reference that is not written as one', '"${A B}"', 'expected ${NAME}'],
    ['a path that every command needs', '"${NOWHERE}"', 'NOWHERE is not set'],
  ])('ends every command: %s', async (_what, text, expected) => {
    const broken = text.includes('A B')
      ? withoutSecrets.replace('"${CONNECTOR_API_CLIENT_ID}"', text)
      : withoutSecrets.replace('./main.db', text);
    writeFileSync(join(world.folder, 'broken.yaml'), broken);
    const { code, stderr } = await callCli(['status', '--config', 'broken.yaml'], { cwd: world.folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining(expected)]);
  });
});
