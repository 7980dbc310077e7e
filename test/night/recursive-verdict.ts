import { CALLS_PER_QUESTION, type RecursiveNight } from './run-recursive-night.ts';

/** What is not as it must be in a night, killed or not. */
export function problemsOf(night: RecursiveNight): string[] {
  const { questions, completed, answers, calls, charges, duplicates, named, kills, killsPlanned } = night;
  const extra = [...duplicates.values()].reduce((sum, count) => sum + count, 0);
  const expected = questions * CALLS_PER_QUESTION;
  return [
    ...(completed === questions ? [] : [`${completed} of ${questions} questions are completed`]),
    ...(answers.size === questions ? [] : [`${answers.size} of ${questions} answers are exported`]),
    ...[...answers].flatMap(([item, { citations, badCitations }]) => [
      ...(citations > 0 ? [] : [`answer ${item} has no citation`]),
      ...badCitations.map((citation) => `answer ${item} cites what does not stand in ${citation}`),
    ]),
    ...(calls === expected ? [] : [`${calls} calls are answered, and it must be ${expected}`]),
    ...(charges - extra === calls ? [] : [`${charges} charges, ${extra} of them again, are not ${calls} calls`]),
    ...[...duplicates.keys()]
      .filter((call) => !named.has(call))
      .map((call) => `call ${call} was charged twice, and never named in doubt`),
    ...night.unexplained.map((problem) => `the audit says: ${problem}`),
    ...(kills.length === killsPlanned ? [] : [`${kills.length} of ${killsPlanned} kills found the night at work`]),
    ...(killsPlanned === 0 ? undisturbedProblems(night) : []),
  ];
}

/** Nothing is in doubt where nobody was killed. */
function undisturbedProblems({ named, attemptsLost }: RecursiveNight): string[] {
  return [
    ...(named.size === 0 ? [] : [`${named.size} calls are in doubt, and nobody was killed`]),
    ...(attemptsLost === 0 ? [] : [`${attemptsLost} attempts are lost, and nobody was killed`]),
  ];
}

/** Answers that are not the same, byte for byte. */
export function differencesOf(plain: RecursiveNight, killed: RecursiveNight): string[] {
  const items = new Set([...plain.answers.keys(), ...killed.answers.keys()]);
  return [...items]
    .filter((item) => plain.answers.get(item)?.raw !== killed.answers.get(item)?.raw)
    .map((item) => `answer ${item} of the killed night is another: ${killed.answers.get(item)?.raw ?? 'none'}`);
}
