import { parseArgs } from 'node:util';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' }, big: { type: 'boolean', default: false } },
});
const rounds = Number(values.rounds);
switch (positionals[0]) {
  case 'journal':
    await (await import('./journal.ts')).benchJournal(rounds);
    break;
  case 'claim':
    await (await import('./claim.ts')).benchClaim(rounds, values.big);
    break;
  case 'budgets':
    await (await import('./budgets.ts')).benchBudgets(rounds);
    break;
  case 'sandbox':
    await (await import('./sandbox.ts')).benchSandbox();
    break;
  default:
    process.stderr.write('usage: npm run bench -- journal|claim|budgets|sandbox [--rounds 5] [--big]\n');
    process.exitCode = 2;
}
