import { readdirSync, readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';
import { defaultTimings } from '../src/jobs/worker-context.ts';
import { startMonitor } from '../src/monitor/start-monitor.ts';
import { tablesSql } from '../src/sinks/sqlite/sqlite-schema.ts';
import { openMetrics, openSeries } from '../src/telemetry/metrics.ts';

const document = readdirSync('docs/operations')
  .map((name) => readFileSync(`docs/operations/${name}`, 'utf8'))
  .join('\n');
const rules = readFileSync('docs/deployment/alerts.yaml', 'utf8');
const compose = readFileSync('compose.yaml', 'utf8');

describe('docs/operations', () => {
  const spans = [...document.matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
  it('says of Redis and of secrets what compose.yaml does', () => {
    for (const setting of ['--maxmemory-policy noeviction', '--appendonly yes', '--appendfsync everysec']) {
      const [, name = '', value = ''] = /^--(\S+) (\S+)$/.exec(setting) ?? [];
      expect(compose).toContain(setting);
      expect(document).toMatch(new RegExp(`\\| \`${name}\` +\\| \`${value}\` `));
    }
    const services = [...document.matchAll(/docker compose (?:exec|run --rm|logs -f|cp) (\w+)/g)];
    expect(new Set(services.map(([, name]) => name))).toEqual(new Set(['worker']));
  });

  it('names existing metrics in its alert rules, and none that may be limited', async () => {
    const { text } = await openMetrics({
      version: '1',
      sample: () => Promise.reject(new Error('nothing to sample')),
    }).text();
    const own = [...text.matchAll(/^# HELP connector_sync_(\S+)/gm)].map(([, name = '']) => name);
    const inRules = [...rules.replaceAll(/^#.*$/gm, '').matchAll(/connector_sync_(\w+)/g)].map(
      ([, name = '']) => name,
    );
    expect(inRules.filter((name) => !own.includes(name))).toEqual([]);
    // Those of single connectors may be limited: no alert rests on them.
    const limited = Object.keys(openSeries());
    expect(inRules.filter((name) => limited.includes(name))).toEqual([]);
    const others = [...document.matchAll(/\b((?:process|nodejs)_\w+)/g)].map(([, name = '']) => name);
    expect(others.filter((name) => !text.includes(`# HELP ${name} `))).toEqual([]);
  });

  it('has alert rules of the shape that Prometheus reads', () => {
    const rule = z.strictObject({
      alert: z.string().regex(/^ConnectorSync[A-Z]\w+$/),
      expr: z.string().min(1),
      for: z
        .string()
        .regex(/^\d+[mhd]$/)
        .optional(),
      annotations: z.strictObject({ summary: z.string().min(1) }),
    });
    const group = z.strictObject({ name: z.string(), rules: z.array(rule).min(8) });
    expect(() => z.strictObject({ groups: z.array(group) }).parse(parse(rules))).not.toThrow();
  });

  it('names pages that the worker serves', async () => {
    await using monitor = await startMonitor({
      listen: { host: '127.0.0.1', port: 0 },
      health: {
        worker: () => Promise.resolve({ isReady: true, problems: [] }),
        sinks: () => Promise.resolve([]),
      },
      metrics: () => Promise.resolve({ contentType: 'text/plain', text: '' }),
      log: { info: () => {}, warn: () => {}, error: () => {} },
    });
    const paths = [...document.matchAll(/^\| `(\/\w+)`/gm)].map(([, path = '']) => path);
    expect(paths).toEqual(['/healthz', '/readyz', '/metrics', '/board']);
    const statuses = paths
      .slice(0, 3)
      .map(async (path) => await fetch(new URL(path, monitor.url)).then(({ status }) => status));
    expect(await Promise.all(statuses)).toEqual([200, 200, 200]);
  });

  it('queries existing columns of the ledger', () => {
    const db = new Database(':memory:');
    db.exec(tablesSql);
    const statements = [...document.matchAll(/"(SELECT [^"]+)"/g)].map(([, sql = '']) => sql);
    expect(statements.length).toBeGreaterThan(1);
    for (const sql of statements) expect(() => db.prepare(sql)).not.toThrow();
    db.close();
  });

  it('names existing error codes', () => {
    const known = readFileSync('src/core/errors.ts', 'utf8');
    const codes = spans.filter(
      (text) => /^[A-Z]+(_[A-Z]+)+$/.test(text) && !/^(LOG_LEVEL$|CONNECTOR_SYNC_)/.test(text),
    );
    expect(codes.length).toBeGreaterThan(5);
    expect(codes.filter((code) => !known.includes(`'${code}'`))).toEqual([]);
  });

  it('promises no faster take-over of a killed worker than its locks allow', () => {
    const [, seconds = ''] = /after\s+at\s+most\s+(\d+)\s+s\s+when\s+it\s+is\s+killed/.exec(document) ?? [];
    expect(Number(seconds) * 1000).toBe(defaultTimings.lockMs + 2 * defaultTimings.stalledMs);
  });
});
