import { Secret } from '../core/secret.ts';
import { missingHere } from './texts.ts';
import type { LocalSettings } from './settings.ts';

/** Collects every secret, wherever it is in the settings: a new one is found without a change here. */
export function secretsOf(settings: LocalSettings): readonly Secret[] {
  const { url } = settings.parts.redis;
  // An address that is missing or has no password is no secret, and messages need it.
  const isAddress = url.reveal() === missingHere || new URL(url.reveal()).password === '';
  return [...secretsIn(settings, new Set())].filter((secret) => secret !== url || !isAddress);
}

function* secretsIn(value: unknown, seen: Set<object>): Generator<Secret> {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Secret) yield value;
  const inner = value instanceof Map || value instanceof Set ? value.values() : Object.values(value);
  for (const one of inner) yield* secretsIn(one, seen);
}
