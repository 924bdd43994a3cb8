/** Milliseconds since the epoch. Samples lie in the past, whenever they are made. */
export const sampleStart = Date.UTC(2022, 11, 27, 8, 12, 59);
export const dayMs = 86_400_000;

/** As the email service writes times: `2022-12-27T08:12:59+00:00`. */
export function mailingTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}+00:00`;
}

/** As the notes service writes times, rounded down to the minute: `2021-10-19T13:33:00.000Z`. */
export function notesTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}:00.000Z`;
}
