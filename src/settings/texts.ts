import * as z from 'zod';
import { textAs } from '../definitions/schema-problems.ts';
import type { Checked } from './check-urls.ts';
import { durationExamples, formatDuration, parseDuration } from './parse-unit.ts';

// Texts of a config that are checked and converted where its schemas name them.

export function checked(standIn: string, check: (text: string) => Checked, text = z.string()) {
  return textAs(
    standIn,
    (given, note) => {
      const found = check(given);
      if (!found.ok) note(found.why);
      return found.ok ? found.value : '';
    },
    text,
  );
}

export function matching(pattern: RegExp, message: string, standIn = 'x', text = z.string()) {
  return textAs(
    standIn,
    (given, note) => {
      if (!pattern.test(given)) note(message);
      return given;
    },
    text,
  );
}

/** Milliseconds. */
export function duration(leastMs = 0) {
  const error = `expected a duration such as ${durationExamples}`;
  return textAs(
    '1h',
    (text, note) => {
      const ms = parseDuration(text);
      if (ms === null) note(error);
      else if (ms < leastMs) note(`expected at least ${formatDuration(leastMs)}`);
      return ms ?? 0;
    },
    z.string({ error }),
  ).meta({ description: `A duration such as ${durationExamples}` });
}

/** Nothing runs more often. */
export const shortestEveryMs = 10_000;

/** Describes a text that no output may show. */
export function secret(description: string) {
  return { description, writeOnly: true };
}

/** Null where the file says nothing. */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return schema.optional().transform((value) => value ?? null);
}
