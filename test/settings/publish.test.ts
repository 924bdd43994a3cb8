import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { formatProblem, ProblemsError } from '../../src/core/problems.ts';
import { checkTargets, readSettings } from '../../src/settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../../src/settings/settings.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

const withTargets = (text: string): string => `${goodConfig}publish:\n${text}`;
const read = (text: string): LocalSettings =>
  readSettings({ file: folder.write('config.yaml', text), env: folder.env });
const targetOf = (text: string): PublishSettings | undefined =>
  read(withTargets(`  lake: ${text}\n`)).publish.get('lake');
const problems = (text: string): readonly string[] => folder.problems(withTargets(text));

describe('a target of publish', () => {
  it('needs a type and a place, and then holds every connector, after each sync, for 30 days', () => {
    const target = targetOf('{ type: files, directory: ../lake }');
    expect(target).toMatchObject({
      name: 'lake',
      type: 'files',
      directory: path.join(path.dirname(folder.path), 'lake'),
      format: 'parquet',
      when: { kind: 'after-sync' },
      snapshotEveryMs: null,
      keepMs: 30 * 86_400_000,
    });
    expect(target?.connectors.map(({ name }) => name)).toEqual(['newsletter']);
  });

  it('may be a bucket, tables in PostgreSQL or a DuckDB file', () => {
    expect(
      targetOf(
        '{ type: s3, bucket: acme-raw, prefix: /raw/, endpoint: "http://127.0.0.1:9000", format: csv }',
      ),
    ).toMatchObject({ type: 's3', prefix: 'raw', credentials: null, region: null, format: 'csv' });
    expect(targetOf('{ type: postgres, url: postgresql://u@127.0.0.1/mart }')).toMatchObject({
      schema: 'lake',
      deletes: 'mark',
      connection: { database: 'mart' },
    });
    expect(targetOf('{ type: duckdb, path: ./other.duckdb, keep: forever }')).toMatchObject({ keepMs: null });
    expect(targetOf('{ type: duckdb, path: ./desk.duckdb, when: { every: 1h }, keep: 30d }')).toMatchObject({
      path: path.join(folder.path, 'desk.duckdb'),
      when: { kind: 'every', everyMs: 3_600_000 },
      keepMs: 30 * 86_400_000,
    });
  });

  const files = 'type: files, directory: ./lake';
  it.each(
    Object.entries({
      [`${files}, connectors: [newsleter]`]:
        'connectors.0: no such connector: "newsleter"; did you mean "news',
      [`${files}, connectors: [newsletter, newsletter]`]: 'connectors.1: newsletter is named twice',
      [`${files}, when: { every: 1s }`]: 'when.every: expected at least 10s',
      [`${files}, keep: always`]: 'keep: expected a duration',
      'type: s3, bucket: Acme': 'bucket: expected the name of a bucket',
      'type: s3, bucket: acme, accessKeyId: a': 'expected both accessKeyId and secretAccessKey',
      'type: s3, bucket: acme, endpoint: "http://minio.example"': 'endpoint: expected an https',
      'type: postgres, url: postgresql://u@h/d, schema: pg_x': 'schema: expected 1 to 40',
      'type: duckdb, path: ./warehouse.db': 'path: is the place of sinks.warehouse',
    }),
  )('is refused as { %s }', (target, problem) => {
    expect(problems(`  t: { ${target} }\n`)).toEqual([expect.stringContaining(problem)]);
  });

  it('is refused with another type, and another time', () => {
    expect(problems(`  a: { type: file }\n  b: { ${files}, when: daily }\n`)).toEqual([
      ':13: publish.a.type: expected type: files, s3, postgres or duckdb; did you mean "files"?',
      ':14: publish.b.when: expected after-sync, by-hand or { every: 1h }',
    ]);
  });

  it('shares its place with no other target: no glob may find the files of both', () => {
    expect(
      problems(`  a: { type: files, directory: ./lake }
  b: { type: files, directory: ./lake/b }
  c: { type: s3, bucket: acme, prefix: raw }
  d: { type: s3, bucket: acme, prefix: raw/more }
  e: { type: s3, bucket: acme, prefix: raw-other }
`),
    ).toEqual([
      ':14: publish.b.directory: lies inside the place of publish.a; give each its own',
      ':16: publish.d.bucket: lies inside the place of publish.c; give each its own',
    ]);
  });

  it('shares its place with no target that a link leads to, and holds no sink', () => {
    mkdirSync(path.join(folder.path, 'lake'));
    symlinkSync('lake', path.join(folder.path, 'other'));
    expect(
      problems(`  a: { type: files, directory: ./lake }
  b: { type: files, directory: ./other/not-yet/there }
  c: { type: duckdb, path: ./lake/desk.duckdb }
`),
    ).toEqual([
      ':14: publish.b.directory: lies inside the place of publish.a; give each its own',
      ':15: publish.c.path: lies inside the place of publish.a; give each its own',
    ]);
    const twice = goodConfig.replace(
      'connectors:',
      '  one: { type: jsonl, directory: ./lake }\n  two: { type: jsonl, directory: ./other }\nconnectors:',
    );
    expect(folder.problems(twice)).toContain(
      ':8: sinks.two.directory: is the place of sinks.one; give each its own',
    );
    expect(problems('  all: { type: files, directory: . }\n')).toEqual([
      ':13: publish.all.directory: contains the place of sinks.warehouse; give each its own',
    ]);
  });

  it('holds connectors of one sink, because it shows one state of it', () => {
    const two = `${goodConfig.replace('connectors:', '  second: { type: sqlite, path: ./second.db }\nconnectors:')}  other: { definition: email-marketing, id: c-2, sink: second }
`;
    const found = folder.problems(`${two}publish: { lake: { type: files, directory: ./lake } }\n`);
    expect(found).toEqual([
      expect.stringContaining(
        'publish.lake: expected connectors of one sink, got those of warehouse and second',
      ),
    ]);
    const named = `${two}publish: { lake: { type: files, directory: ./lake, connectors: [other] } }\n`;
    expect(folder.problems(named)).toEqual([]);
  });

  it('reports nothing of a connector that is itself reported as broken', () => {
    const broken = goodConfig.replace('email-marketing', 'email-marketin');
    const found = folder.problems(
      `${broken}publish: { lake: { type: files, directory: ./lake, connectors: [newsletter] } }\n`,
    );
    expect(found).toEqual([expect.stringContaining('connectors.newsletter.definition: no such definition')]);
  });
});

describe('what is missing of a target', () => {
  const config = withTargets(`  lake: { type: files, directory: ./lake }
  mart: { type: postgres, url: '\${MART_URL}', password: '\${MART_PASSWORD}' }
  bucket: { type: s3, bucket: acme, accessKeyId: a, secretAccessKey: '\${file:./key}' }
`);

  it('is no concern of other targets, and of commands that publish nothing', () => {
    const settings = read(config);
    const [lake, mart, bucket] = [...settings.publish.values()];
    if (lake === undefined || mart === undefined || bucket === undefined) throw new Error('expected three');
    expect(() => checkTargets(settings, [lake])).not.toThrow();
    expect(problemsOf(() => checkTargets(settings, [lake, mart]))).toEqual([
      expect.stringContaining('publish.mart.url: the environment variable MART_URL is not set'),
      expect.stringContaining('publish.mart.password: the environment variable MART_PASSWORD is not set'),
    ]);
    expect(problemsOf(() => checkTargets(settings, [bucket]))).toEqual([
      expect.stringContaining('publish.bucket.secretAccessKey: '),
    ]);
  });

  it('may be a duration', () => {
    const text = withTargets(`  lake: { type: files, directory: ./lake }
  mart: { type: files, directory: ./mart, keep: '\${MART}', when: { every: '\${MART}' } }
`);
    const settings = read(text);
    const [lake, mart] = [...settings.publish.values()];
    if (lake === undefined || mart === undefined) throw new Error('expected two');
    expect(() => checkTargets(settings, [lake])).not.toThrow();
    expect(problemsOf(() => checkTargets(settings, [mart]))).toEqual(
      ['keep', 'when.every'].map((at) => expect.stringContaining(`publish.mart.${at}: the environment`)),
    );
  });

  it.each([
    ['publish.mart.type', "publish: { mart: { type: '${MART}', directory: ./mart } }"],
    ['publish.mart.format', "publish: { mart: { type: files, directory: ./mart, format: '${MART}' } }"],
    [
      'notify.mart.kinds.0',
      "notify: { mart: { type: webhook, url: 'https://hooks.example.com/x', kinds: ['${MART}'] } }",
    ],
  ])('stops every command where it is a choice, such as %s', (at, text) => {
    expect(problemsOf(() => read(`${goodConfig}${text}\n`))).toEqual([
      expect.stringContaining(`${at}: the environment variable MART is not set`),
    ]);
  });

  it('and every secret of it, is not shown', () => {
    expect(folder.view(config)).toMatchObject({
      publish: {
        lake: { type: 'files', format: 'parquet', when: 'after-sync' },
        mart: { url: '[missing]', deletes: 'mark' },
        bucket: { secretAccessKey: '[missing]' },
      },
    });
    folder.env['MART_URL'] = 'postgresql://publisher:pass-from-url@db.example/mart';
    folder.env['MART_PASSWORD'] = 'pass-from-beside';
    folder.write('key', 'the-key-of-the-bucket');
    const text = JSON.stringify(folder.view(config));
    expect(text).toContain('postgresql://[secret]@db.example/mart');
    expect(text).not.toMatch(/pass-from|the-key-of|publisher/);
  });
});

function problemsOf(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof ProblemsError) return error.problems.map(formatProblem);
    throw error;
  }
  return [];
}
