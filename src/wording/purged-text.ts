/** That a record was purged which is not stored, as the sink notes it. */
export function purgedText({
  at,
  who,
  canReturn,
}: {
  readonly at: string;
  readonly who: string;
  readonly canReturn: boolean;
}): string {
  const next = canReturn ? 'the next sync that meets it stores it again' : 'syncs do not store it again';
  return `was purged at ${at} by ${who}; ${next}.`;
}
