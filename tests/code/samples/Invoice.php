<?php

namespace App\Billing;

use App\Money\Amount;
use App\Models\{Customer, Order as Purchase};
use function App\round_up;
require_once 'helpers.php';

const RATE = 19;
define('CURRENCY', 'EUR');

/**
 * What a customer owes.
 */
#[Entity]
final class Invoice extends Document implements \JsonSerializable, Payable
{
    use Timestamps;

    public const PREFIX = 'INV';
    private static ?int $count = 0;
    protected array $lines = [], $notes;

    public function __construct(private readonly Customer $customer, int $start = RATE)
    {
        parent::__construct();
        $this->lines = [$start];
        self::$count++;
    }

    /** Adds a line. */
    public function add(Amount|int $amount, string ...$notes): static
    {
        $line = new Line($amount);
        foreach ($notes as $key => $note) {
            $line->note($note)->save();
        }
        $total = array_map(fn($x) => $x * RATE, $this->lines);
        return round_up($total) instanceof Purchase ? $this : static::make(self::PREFIX, Suit::Hearts);
    }

    abstract protected function send(): void;
}

interface Payable extends Printable
{
    public function pay(Amount $amount): bool;
}

trait Timestamps
{
    public $created;
}

enum Suit: string
{
    case Hearts = 'H';
}

function pay_all(?Invoice $invoice, &$log)
{
    try {
        $invoice?->add(1);
    } catch (Failure $failure) {
        $log = $failure;
    }
}
