import { readFileSync } from 'node:fs';
import type { JsonObject } from '../../src/core/json.ts';

interface Recorded {
  readonly definition: string;
  readonly entity: string;
  readonly record: JsonObject;
}

/** Records as the live services sent them, names and addresses replaced. */
export const recorded: readonly Recorded[] = readFileSync(
  new URL('../fixtures/recorded-shapes.jsonl', import.meta.url),
  'utf8',
)
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded);
