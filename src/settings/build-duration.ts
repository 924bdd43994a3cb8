import type { Note } from '../definitions/check-names.ts';
import { durationExamples, parseDuration } from './parse-unit.ts';

/** Milliseconds of a duration in the file; `otherwise` where it is left out or, after a problem, cannot be read. */
export function buildDuration<Otherwise extends number | null>(
  text: string | undefined,
  otherwise: Otherwise,
  at: readonly string[],
  note: Note,
): number | Otherwise {
  if (text === undefined) return otherwise;
  const ms = parseDuration(text);
  if (ms === null) note(at, `expected a duration such as ${durationExamples}`);
  return ms ?? otherwise;
}
