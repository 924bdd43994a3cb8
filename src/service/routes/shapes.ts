import * as z from 'zod';
import { hasAtMostCharacters } from '../../core/characters.ts';
import { isPlainName, maxNameLength, plainNameRule } from '../state/plain-name.ts';

/** ISO 8601, UTC. */
export const time = z.iso.datetime();

export const jsonObject = z.record(z.string(), z.unknown());

/** A name that people gave: shown and compared as it is. */
export function givenName(): z.ZodString {
  return textUpTo(maxNameLength).min(1).refine(isPlainName, `Expected ${plainNameRule}.`);
}

/** zod's own `max` counts UTF-16 units, in which an emoji is two. */
export function textUpTo(most: number): z.ZodString {
  return z
    .string()
    .refine((text) => hasAtMostCharacters(text, most), `Expected at most ${most} characters.`)
    .meta({ maxLength: most });
}

/** Any text: what is no connector's id is simply not found. */
export const connectorPath = z.object({ id: z.string().describe("The connector's id.") });
