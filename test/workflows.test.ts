import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as workflowParser from '@actions/workflow-parser';
import { build } from 'esbuild';
import { describe, expect } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';
import { it } from './support/it.ts';

const step = z.strictObject({
  uses: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  run: z.string().optional(),
  env: z.record(z.string(), z.string()).optional(),
});
const workflow = z.object({
  permissions: z.strictObject({ contents: z.literal('read') }),
  jobs: z.record(z.string(), z.object({ steps: z.array(step) })),
});
const workflows = ['test', 'publish'].map((name) => {
  const text = readFileSync(`.github/workflows/${name}.yml`, 'utf8');
  return { name, text, ...workflow.parse(parse(text)) };
});
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const stubs = ['sudo', 'npm', 'docker', '.ci/run'];

/** Runs the steps of a job, in order, with programs that only say how they were called. */
function runJob(folder: string, steps: readonly z.infer<typeof step>[], confirmed: boolean) {
  for (const file of [
    'package.json',
    'package-lock.json',
    'Dockerfile',
    'README.md',
    '.github',
    '.ci',
    'docs',
  ]) {
    cpSync(file, join(folder, file), { recursive: true });
  }
  const project = JSON.parse(readFileSync('project.json', 'utf8')) as object;
  writeFileSync(join(folder, 'project.json'), JSON.stringify({ ...project, confirmed }));
  const programs = join(folder, 'bin');
  mkdirSync(programs, { recursive: true });
  for (const name of stubs) {
    const file = name.includes('/') ? join(folder, name) : join(programs, name);
    writeFileSync(file, `#!/bin/sh\necho "${name} $*"\n`);
    chmodSync(file, 0o755);
  }
  const env = {
    PATH: [programs, dirname(process.execPath), process.env['PATH']].join(delimiter),
    GITHUB_REF_NAME: `v${version}`,
    GITHUB_ACTOR: 'owner',
    GITHUB_REPOSITORY: 'owner/sync',
  };
  const said: string[] = [];
  for (const { run } of steps) {
    if (run === undefined) continue;
    const { status, stdout, stderr } = spawnSync('bash', ['-eo', 'pipefail', '-c', run], {
      cwd: folder,
      env,
      encoding: 'utf8',
    });
    if (status !== 0) return { said, stderr };
    const lines = stdout.split('\n').map((line) => line.trim());
    said.push(...lines.filter((line) => line !== ''));
  }
  return { said, stderr: '' };
}

describe('the workflows', () => {
  let parser: typeof workflowParser;
  it.beforeAll(async ({ fileFolder }) => {
    // Bundled, because it imports JSON in a way that Node.js refuses.
    const outfile = join(fileFolder, 'workflow-parser.mjs');
    await build({ entryPoints: ['@actions/workflow-parser'], bundle: true, format: 'esm', outfile });
    parser = (await import(pathToFileURL(outfile).href)) as typeof workflowParser;
  });

  /** What GitHub's own parser finds wrong. */
  async function problemsOf(name: string, content: string): Promise<string[]> {
    const { context, value } = parser.parseWorkflow({ name, content }, new parser.NoOperationTraceWriter());
    if (value !== undefined) await parser.convertWorkflowTemplate(context, value);
    return context.errors.getErrors().map(({ message }) => message);
  }

  it('are taken by the parser of GitHub', async () => {
    for (const file of readdirSync('.github/workflows')) {
      expect(await problemsOf(file, readFileSync(`.github/workflows/${file}`, 'utf8'))).toEqual([]);
    }
  });

  it.for([
    ['a misspelt key', 'runs-on:', 'run-on:', "Unexpected value 'run-on'"],
    ['an unknown context', '${{ matrix.node }}', '${{ matrx.node }}', "Unrecognized named-value: 'matrx'"],
    ['an unknown right', 'contents: read', 'contents: reed', "Unexpected value 'reed'"],
  ] as const)('are refused by it with %s', async ([, right, wrong, message]) => {
    const text = workflows[0]?.text ?? '';
    expect(text).toContain(right);
    expect(await problemsOf('test.yml', text.replace(right, wrong))).toContainEqual(
      expect.stringContaining(message),
    );
  });

  it('use actions by commit only', () => {
    const used = workflows.flatMap(({ text }) => text.match(/uses: .*/g) ?? []);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((line) => !/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual(
      [],
    );
  });

  it('run the same checks on every Node.js that is supported', ({ folder }) => {
    const [test] = workflows;
    expect(test?.text).toContain('node: [20, 22, 24, 26]');
    const { said } = runJob(folder, test?.jobs['test']?.steps ?? [], false);
    expect(said).toEqual([
      'sudo apt-get update',
      'sudo apt-get install -y redis-server postgresql',
      '.ci/run',
    ]);
  });

  it.for(['package', 'image'])('publish no %s before the names are confirmed', (name, { folder }) => {
    const { said, stderr } = runJob(folder, workflows[1]?.jobs[name]?.steps ?? [], false);
    expect(said).toEqual([]);
    expect(stderr).toContain('"confirmed": true');
  });

  it('publish package and image with provenance', ({ folder }) => {
    const jobs = workflows[1]?.jobs ?? {};
    expect(runJob(folder, jobs['package']?.steps ?? [], true).said.slice(2)).toEqual([
      '.ci/run',
      'npm publish --provenance --access public',
    ]);
    expect(runJob(folder, jobs['image']?.steps ?? [], true).said).toEqual([
      'docker login ghcr.io --username owner --password-stdin',
      'docker buildx create --use',
      `docker buildx build --provenance=mode=max --sbom=true --tag ghcr.io/owner/sync:${version} --push .`,
    ]);
  });
});
