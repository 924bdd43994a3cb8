import { z } from 'zod';
import { isPlainName, maxNameLength, plainNameRule } from '../state/plain-name.ts';

/** A name that people gave: shown and compared as it is. */
export function givenName(): z.ZodString {
  return z.string().min(1).max(maxNameLength).refine(isPlainName, `Expected ${plainNameRule}.`);
}
