import { execFileSync, spawn } from 'node:child_process';
import {
  readdirSync,
  readFileSync,
  statSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { join, delimiter, dirname, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  blocksOf,
  callsOf,
  documents,
  guides,
  parseCall,
  parseRecommended,
  recommendedCalls,
  unrunCommands,
} from './support/document-commands.ts';
import { isLong } from './support/trials.ts';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { freePort } from './support/redis.ts';
import { callCli, startCli } from './support/run-cli.ts';

interface DocumentRun extends Disposable {
  /** The folder the commands ran in, empty before. */
  readonly folder: string;
  readonly code: number | null;
  /** What each block wrote to standard output. */
  readonly steps: readonly string[];
  readonly stderr: string;
}

const stepEnd = '@@ end of a block @@';
const startTimeoutSeconds = 60;

/** Runs every `sh` block of a document with bash, in order, in a folder that git ignores what it ignores in a clone. */
async function runDocument(document: string): Promise<DocumentRun> {
  const world = mkdtempSync(join(tmpdir(), 'connector-sync-doc-'));
  const folder = join(world, 'clone');
  mkdirSync(folder);
  copyFileSync('.gitignore', join(folder, '.gitignore'));
  execFileSync('git', ['init', '-q'], { cwd: folder });
  execFileSync('git', ['add', '.'], { cwd: folder });
  await using calls = await takeCalls(join(world, 'calls'));
  const shell = spawn('bash', ['-c', await scriptOf(document)], {
    cwd: folder,
    env: { PATH: [...programFolders(world, calls.socket), process.env['PATH']].join(delimiter), HOME: world },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that what the document left running ends with it.
    detached: true,
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    shell[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  }
  const [code] = (await once(shell, 'close')) as [number | null];
  return {
    folder,
    code,
    steps: output.stdout.split(`${stepEnd}\n`).slice(0, -1),
    stderr: output.stderr,
    [Symbol.dispose]: () => rmSync(world, { recursive: true, force: true }),
  };
}

/**
 * The blocks as they stand, with three changes: a line that is not run is replaced, the API's usual port is a free one,
 * and after a command in the background the next one waits until that port answers, as a person would.
 */
async function scriptOf(document: string): Promise<string> {
  const port = String(await freePort());
  const awaitPort = `for try in $(seq ${startTimeoutSeconds * 10}); do (exec 3<>/dev/tcp/127.0.0.1/${port}) 2> /dev/null && break; sleep 0.1; done`;
  const lines = blocksOf(document, 'sh').flatMap((block) => [
    ...block.split('\n').flatMap((line) => {
      const unrun = unrunCommands.find((one) => line.replace(/ +#.*$/, '') === one.line);
      const text = unrun === undefined ? line : (unrun.instead ?? '');
      const served = text
        .replaceAll('127.0.0.1:8787', `127.0.0.1:${port}`)
        .replaceAll('connector-sync serve', `connector-sync serve --port ${port}`);
      return / &( +#.*)?$/.test(text) ? [served, awaitPort] : [served];
    }),
    `echo '${stepEnd}'`,
  ]);
  return ['set -eu', "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT", ...lines].join('\n');
}

/**
 * Hold the built program as an installation links it and, in `npm test`, before it one that hands its calls to
 * `takeCalls`: processes take longer to start than commands work. The demo, and what serves, run as they are.
 */
function programFolders(world: string, socket: string): readonly string[] {
  const { bin } = JSON.parse(readFileSync('package.json', 'utf8')) as { bin: { 'connector-sync': string } };
  const [folder, before] = [join(world, 'bin'), join(world, 'before')];
  for (const one of [folder, before]) mkdirSync(one);
  const program = join(folder, 'connector-sync');
  symlinkSync(resolve(bin['connector-sync']), program);
  const standIn = `#!/bin/bash
case $1 in serve | demo) exec ${program} "$@" ;; esac
to=$(mktemp -d)
{ printf '%s\\0' "$to" "$PWD" $# "$@"; env -0; } | curl -s --unix-socket ${socket} --data-binary @- http://here
cat "$to/stdout"
cat "$to/stderr" >&2
exit "$(cat "$to/code")"
`;
  if (!isLong) writeFileSync(join(before, 'connector-sync'), standIn, { mode: 0o755 });
  return [before, folder, dirname(process.execPath)];
}

/** Runs inside this process what it is asked for: a folder for what comes of it, where, how many arguments, and all. */
async function takeCalls(socket: string) {
  const take = async (called: string): Promise<void> => {
    const [to = '', cwd = '', count = '', ...rest] = called.split('\0');
    const variables = rest.slice(Number(count), -1).map((one) => one.split(/=(.*)/s, 2));
    const env = Object.fromEntries(variables) as Record<string, string>;
    const ended = await callCli(rest.slice(0, Number(count)), { cwd, env });
    for (const [name, value] of Object.entries(ended)) writeFileSync(join(to, name), String(value));
  };
  const server = createServer((asked, answer) => {
    const end = (): void => void answer.end();
    void text(asked).then(take).then(end, end);
  }).listen(socket);
  await once(server, 'listening');
  return {
    socket,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

const missing = ['bash', 'curl', 'git'].filter((tool) => !isThere(tool));
/** In `npm test` those that a newcomer begins with, and two that cost little. */
const share = [
  'README.md',
  'docs/adding-a-connector.md',
  ...['first-sync', 'import'].map((name) => `docs/guides/${name}.md`),
];
const guidesWithCommands = guides.filter(
  (guide) => blocksOf(guide, 'sh').length > 0 && (isLong || share.includes(guide)),
);

describe.skipIf(missing.length > 0)(
  `the commands of the guides (${missing.join(', ') || 'bash, curl, git'})`,
  () => {
    it.each(guidesWithCommands)(
      '%s runs from an empty folder, shows what it prints, and leaves git clean',
      async (guide) => {
        using run = await runDocument(guide);
        if (run.code !== 0) expect.fail(`exit code ${run.code}: ${run.stderr}`);
        // The sample accounts of the demo are the same everywhere, so README.md shows their very numbers.
        const form = guide === 'README.md' ? exactShape : shape;
        const printed = new Set(run.steps.flatMap((step) => step.split('\n')).map(form));
        const quoted = blocksOf(guide, 'text')
          .flatMap((block) => block.split('\n'))
          .map(form);
        expect(quoted.filter((line) => line !== '' && line !== '...' && !printed.has(line))).toEqual([]);
        if (guide === 'README.md') await expectDemoPages(run.folder);
        const status = execFileSync('git', ['status', '--porcelain'], { cwd: run.folder, encoding: 'utf8' });
        expect(status).toBe('A  .gitignore\n');
        if (guide.endsWith('/serving.md')) expectServedAnswers(run);
      },
      240_000,
    );
  },
);

describe('the commands of all documents', () => {
  const calls = documents.flatMap((document) => callsOf(document).map((call) => [document, call] as const));

  it('are many', () => {
    expect(calls.length).toBeGreaterThan(100);
  });

  it.each(calls)('%s names a command that the program has: %s', async (_, call) => {
    await expect(parseCall(call)).resolves.toBeUndefined();
  });

  it('would not pass with a flag that the program does not have', async () => {
    await expect(parseCall('sync --ful')).rejects.toThrow('--ful');
    await expect(parseCall('schedule paus newsletter')).rejects.toThrow('paus');
  });

  it('are all run, but for those that are listed with a reason', () => {
    const lines = guides.flatMap((guide) => blocksOf(guide, 'sh')).flatMap((block) => block.split('\n'));
    expect(unrunCommands.filter(({ line }) => !lines.includes(line))).toEqual([]);
  });
});

describe('the commands that texts of the program and of documents recommend', () => {
  it('are commands that the program has, with arguments and options that they take', async () => {
    const wrong: string[] = [];
    const calls = recommendedCalls();
    for (const { file, call } of calls) {
      await parseRecommended(call).catch((error: unknown) =>
        wrong.push(`${file}: ${call}: ${String(error)}`),
      );
    }
    expect(wrong).toEqual([]);
    expect(calls.filter(({ file }) => file.startsWith('src/')).length).toBeGreaterThan(80);
    expect(calls.map(({ call }) => call)).toContain('check ${connector}');
  });

  it('would not pass with what the program does not take', async () => {
    await expect(parseRecommended('ui ${connector}')).rejects.toThrow('too many arguments');
    await expect(parseRecommended('chek ${connector}')).rejects.toThrow('too many arguments');
    await expect(parseRecommended('status ${connector} --stale')).rejects.toThrow('--stale');
    await expect(parseRecommended('worker starts one')).resolves.toBeUndefined();
  });
});

describe('README.md', () => {
  it('has at most 900 words', () => {
    expect(readFileSync('README.md', 'utf8').split(/\s+/).length).toBeLessThanOrEqual(900);
  });
});

describe('the decisions', () => {
  const folder = 'docs/internals/decisions';
  const records = readdirSync(folder).filter((name) => /^\d{4}-/.test(name));

  it('are at most 30 records, and no number stands twice', () => {
    expect(records.length).toBeLessThanOrEqual(30);
    expect(new Set(records.map((name) => name.slice(0, 4))).size).toBe(records.length);
  });

  it('list every dependency', () => {
    const record = readFileSync(join(folder, '0001-each-dependency-replaces-our-own-code.md'), 'utf8');
    const listed = new Set(
      [...record.matchAll(/^\| ([^|]*?) +\|/gm)].flatMap(([, cell = '']) => cell.split(', ')),
    );
    const { dependencies, devDependencies, optionalDependencies, peerDependencies } = JSON.parse(
      readFileSync('package.json', 'utf8'),
    ) as Record<string, object>;
    const named = Object.keys({
      ...dependencies,
      ...devDependencies,
      ...optionalDependencies,
      ...peerDependencies,
    });
    expect(named.filter((name) => !listed.has(name))).toEqual([]);
    expect([...listed].filter((name) => /^[@a-z]/.test(name) && !named.includes(name))).toEqual([
      'installed',
      'optional',
      'included by the build',
      'development',
    ]);
  });
});

describe('links between documents', () => {
  it.each(documents)('%s links only to what exists', (document) => {
    const links = [...readFileSync(document, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)/g)];
    const broken = links.filter(([, path = '', anchor]) => {
      const target = path === '' ? document : join(document, '..', path);
      if (statSync(target, { throwIfNoEntry: false }) === undefined) return true;
      return anchor !== undefined && !anchorsOf(target).includes(anchor);
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });
});

/** What differs from run to run is left out: ids of runs, times, numbers, and the spaces that they shift. */
function shape(line: string): string {
  return exactShape(line).replaceAll(/\d[\d,.]*/g, 'N');
}

/** The line without what differs from run to run. */
function exactShape(line: string): string {
  return line
    .replaceAll(/\d{8}T\d{9}Z-[0-9a-f]{8}/g, 'RUN')
    .replaceAll(/[\d.,]+ (ms|s|min)\b/g, 'TIME')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

/** The demo a day later serves the pages of what it has stored until Ctrl-C, and then leaves no server behind. */
async function expectDemoPages(folder: string): Promise<void> {
  // No Redis answers there.
  const env = { REDIS_URL: 'redis://127.0.0.1:1' };
  const running = startCli(['demo', '--revision', '1', '--ui'], { cwd: folder, env });
  await running.until('Ctrl-C stops.');
  const [, url = ''] = /: (http:\/\/127\.0\.0\.1:\d+)$/m.exec(running.output().stdout) ?? [];
  const page = await (await fetch(url)).text();
  expect(page).toContain('<a href="connectors/newsletter">newsletter</a>');
  expect(page).toContain('<a href="connectors/wiki">wiki</a>');
  running.child.kill('SIGINT');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toMatch(/^[\d,]+ rows? written, \d+ marked as deleted/m);
  expect(stdout).toContain('Next:\n');
  expect(stdout).not.toContain(' ui --config ');
  expect(stderr.trimEnd().split('\n').slice(-2)).toEqual([
    'Ctrl-C stops.',
    'Stopping. Ctrl-C again quits now.',
  ]);
  await expect(fetch(url)).rejects.toThrow('fetch failed');
}

function expectServedAnswers({ steps, folder, stderr }: DocumentRun): void {
  const answers = steps.map((step) =>
    step
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : [])),
  );
  const [, , types, live, found, deleted] = answers;
  expect(types).toMatchObject([{ definitions: [{ name: 'Document library' }] }]);
  const [refused, listed, got] = live ?? [];
  expect(refused).toMatchObject({ errors: [{ error_code: 'context_store_not_ready' }] });
  const { result } = listed as { result: readonly object[] };
  expect(result).toHaveLength(2);
  expect(listed).toMatchObject({ status: 'success', connector_metadata: { has_next_page: true } });
  expect(got).toMatchObject({ status: 'success', result: result[0] });
  const page = found?.[0] as { result: { data: readonly { word_count: number }[] } } | undefined;
  const counts = (page?.result.data ?? []).map(({ word_count }) => word_count);
  expect(counts).toHaveLength(3);
  expect(counts).toEqual(counts.toSorted((left, right) => right - left));
  expect(page?.result).toMatchObject({ meta: { has_more: true } });
  expect(deleted).toMatchObject([{ job_id: expect.any(String) as string }]);
  expect(statSync(join(folder, 'attachment.bin')).size).toBeGreaterThan(0);
  // The one file that the guide writes it to is the only place of a credential.
  expect(steps.join('') + stderr).not.toContain('any text will do');
  const holding = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = join(folder, name);
    return statSync(file).isFile() && readFileSync(file, 'latin1').includes('any text will do');
  });
  expect(holding).toEqual(['library.json']);
}

/** As GitHub makes them from headings. */
function anchorsOf(document: string): readonly string[] {
  return [...readFileSync(document, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\d _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function isThere(tool: string): boolean {
  try {
    execFileSync('sh', ['-c', 'command -v "$1"', 'sh', tool], { stdio: 'ignore' });
    return true;
  } catch {
    return false; // Not found: the title says what is missing.
  }
}
