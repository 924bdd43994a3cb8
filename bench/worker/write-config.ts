import { writeFileSync } from 'node:fs';
import path from 'node:path';

export interface BenchConfig {
  readonly folder: string;
  readonly apiUrl: string;
  readonly redisUrl: string;
  readonly connectors: number;
  readonly sinks: number;
}

/** A schedule that does not fire during the bench. */
const yearly = '{ cron: "0 0 1 1 *" }';
const often = '{ every: 30s, jitter: 30s }';

/**
 * Connector `index` reads `id-<index>` and stores in sink `index modulo sinks`. The first `frequent` run every 30 s,
 * spread over that time.
 */
export function writeConfig(config: BenchConfig, frequent: number): string {
  const { folder, apiUrl, redisUrl, connectors, sinks } = config;
  const file = path.join(folder, `bench-${frequent}.yaml`);
  const sinkLines = Array.from(
    { length: sinks },
    (_, index) =>
      `  ${sinkName(index)}: { type: sqlite, path: ${path.join(folder, `${sinkName(index)}.db`)}, durability: normal }`,
  );
  const connectorLines = Array.from(
    { length: connectors },
    (_, index) =>
      `  ${connectorName(index)}: { definition: document-library, id: id-${index}, sink: ${sinkName(index % sinks)}, freshWithin: 2d, schedule: ${index < frequent ? often : yearly} }`,
  );
  writeFileSync(
    file,
    [
      `api: { baseUrl: "${apiUrl}", clientId: bench, clientSecret: "a-secret-of-the-bench" }`,
      `redis: { url: "${redisUrl}" }`,
      'sinks:',
      ...sinkLines,
      'connectors:',
      ...connectorLines,
      '',
    ].join('\n'),
  );
  return file;
}

export function sinkName(index: number): string {
  return `sink-${index}`;
}

export function connectorName(index: number): string {
  return `library-${index}`;
}
