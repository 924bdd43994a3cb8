/**
 * Health of a connector, from the worst to the best: it is called by the worst that applies. `failed`: the newest try
 * ended with an error or could not begin. `late`: an entity is older than its `freshWithin`. `incomplete`: a listing
 * failed, a run was cut short, or deletes wait for a person. `paused`: by a person. `running`: a run is in progress.
 * `new`: nothing was read yet. `ok`: none of these.
 */
export const healthWords = ['failed', 'late', 'incomplete', 'paused', 'running', 'new', 'ok'] as const;
export type Health = (typeof healthWords)[number];
